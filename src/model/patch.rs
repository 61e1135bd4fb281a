//! Structs of which a part can be changed: the macro makes the struct, its patch, and the merge.

use serde::{Deserialize, Deserializer};

/// Reads a field that is present, so that `null` is told apart from a missing field.
pub(super) fn present<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Declares a struct and its patch. `fixed` fields are set when the value is made. Each `open` field is an `Option` in
/// the patch: absent means unchanged, `null` clears a field that can be empty. `merge` replaces whole fields.
macro_rules! patched {
    (
        $(#[$meta:meta])* struct $name:ident, $patch:ident;
        fixed { $( $(#[$fixed_meta:meta])* $fixed:ident: $fixed_type:ty, )* }
        open { $( $(#[$open_meta:meta])* $open:ident: $open_type:ty, )* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $( $(#[$fixed_meta])* pub $fixed: $fixed_type, )*
            $( $(#[$open_meta])* pub $open: $open_type, )*
        }

        #[doc = concat!("A change of [`", stringify!($name), "`]: the fields that are set replace its own.")]
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $patch {
            $(
                #[doc = concat!("The new `", stringify!($open), "`.")]
                #[serde(
                    default,
                    skip_serializing_if = "Option::is_none",
                    deserialize_with = "crate::model::patch::present"
                )]
                pub $open: Option<$open_type>,
            )*
        }

        impl $name {
            /// Replaces the fields that the patch sets.
            pub(in crate::model) fn merge(&mut self, patch: &$patch) {
                $( if let Some(new) = &patch.$open { self.$open.clone_from(new); } )*
            }

            /// Leaves out of a patch what would change nothing.
            pub(in crate::model) fn difference(&self, mut patch: $patch) -> $patch {
                $( if patch.$open.as_ref() == Some(&self.$open) { patch.$open = None; } )*
                patch
            }
        }
    };
}
pub(super) use patched;
