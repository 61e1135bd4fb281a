//! Text in the columns of a terminal: its width, and how to make it fit.
//!
//! Invariant: widths are display widths, so wide, combining and joined characters neither break the alignment
//! nor are cut in half. Text has passed [`crate::cli::ui::sanitize`] before, and is coloured afterwards.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The sign for cut text.
const CUT: &str = "…";

/// The number of columns that a text needs.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text, or as much of its beginning as fits into `columns` together with `…`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let (mut kept, mut taken) = (String::new(), CUT.width());
    for cluster in text.graphemes(true) {
        taken += cluster.width();
        if taken > columns {
            break;
        }
        kept.push_str(cluster);
    }
    kept.push_str(CUT);
    kept
}

/// The text in exactly `columns` columns: cut, or padded with spaces.
pub(crate) fn cell(text: &str, columns: usize) -> String {
    let mut cell = cut(text, columns);
    cell.push_str(&" ".repeat(columns.saturating_sub(width(&cell))));
    cell
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cutting() {
        for (text, columns, expected) in [
            ("branch", 6, "branch"),
            ("branch", 5, "bran…"),
            ("branch", 1, "…"),
            ("branch", 0, ""),
            ("", 0, ""),
            // Two columns each.
            ("漢字漢字", 8, "漢字漢字"),
            ("漢字漢字", 7, "漢字漢…"),
            ("漢字漢字", 6, "漢字…"),
            // No column of its own: it combines with its letter.
            ("e\u{301}e\u{301}e\u{301}", 3, "e\u{301}e\u{301}e\u{301}"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            // One glyph of several characters.
            ("👩‍👩‍👧x", 3, "👩‍👩‍👧x"),
            ("👩‍👩‍👧xy", 3, "👩‍👩‍👧…"),
            ("👩‍👩‍👧xy", 2, "…"),
        ] {
            assert_eq!(cut(text, columns), expected, "{text:?} in {columns}");
        }
    }

    #[test]
    fn cells_line_up() {
        assert_eq!(cell("ab", 4), "ab  ");
        assert_eq!(cell("漢字漢", 4), "漢… ", "the third has no room, and half of it is none");
        assert_eq!(cell("abcdef", 4), "abc…");
    }

    proptest! {
        #[test]
        fn what_is_cut_fits_and_is_a_beginning(text in "\\PC{0,30}", columns in 0_usize..40) {
            let kept = cut(&text, columns);
            prop_assert!(width(&kept) <= columns.max(width("")), "{kept:?}");
            prop_assert!(text.starts_with(kept.strip_suffix(CUT).unwrap_or(&kept)));
            prop_assert!(kept == text || columns == 0 || kept.ends_with(CUT));
        }

        #[test]
        fn a_cell_is_as_wide_as_it_says(text in "\\PC{0,30}", columns in 0_usize..40) {
            prop_assert_eq!(width(&cell(&text, columns)), columns);
        }
    }
}
