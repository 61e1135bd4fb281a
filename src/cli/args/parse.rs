//! Parsers of option values. Their errors say which values are accepted.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::ops::RangeInclusive;

use aynig::clock::{format_utc, wall_seconds};
use aynig::contract::duration::parse_duration;
use aynig::contract::ids::{RemoteName, RoleName, StateName};
use aynig::contract::parking::NOT_BEFORE_KEY;
use aynig::contract::protocol::parse_trailer_arg;
use aynig::contract::retention::parse_age;
use aynig::contract::trailers::Trailer;
use aynig::ops::error::Error;
use aynig::ops::settings::keys;
use aynig::words::shell_quote;
use clap::builder::{OsStringValueParser, TypedValueParser};

/// The longest wait, a hundred years in seconds: the year needs four digits.
const LONGEST_WAIT: i64 = 100 * 366 * 86_400;

/// Parses a whole number within `range`. The error names the range.
pub(crate) fn number(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| keys::number(&range, text)
}

pub(crate) fn count(text: &str) -> Result<usize, String> {
    number(0..=u64::MAX)(text).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

pub(crate) fn parse_state(text: &str) -> Result<StateName, String> {
    StateName::parse(text).map_err(|error| error.to_string())
}

/// Parses the label of a run: one line for people. Line ends and other control characters become spaces.
pub(crate) fn parse_label(text: &str) -> Result<String, Infallible> {
    let words = text.split(|char: char| char.is_control() || char.is_whitespace());
    Ok(words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
}

/// Parses a trailer. `dwp-not-before: +2h` becomes the time two hours from now.
pub(crate) fn parse_trailer(text: &str) -> Result<Trailer, String> {
    let trailer = parse_trailer_arg(text).map_err(|error| error.to_string())?;
    Ok(from_now(&trailer).unwrap_or(trailer))
}

/// The time in a trailer that says how long to wait; `None` for any other trailer.
fn from_now(trailer: &Trailer) -> Option<Trailer> {
    let wait = std::str::from_utf8(&trailer.value).ok()?.strip_prefix('+')?;
    let wait = i64::try_from(parse_duration(wait)?).ok().filter(|wait| *wait <= LONGEST_WAIT)?;
    (trailer.key == NOT_BEFORE_KEY).then(|| Trailer::new(NOT_BEFORE_KEY, format_utc(wall_seconds() + wait)))
}

/// Parses a glob on branches, which is text. The error names one for a name that is none.
pub(crate) fn glob() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|glob| {
        if glob.is_empty() {
            return Err("it is empty; without it, all branches are meant".to_owned());
        }
        glob.into_string().map_err(|odd| {
            let glob = odd.to_string_lossy().replace('\u{fffd}', "*");
            match glob.trim_matches('*') {
                "" => "it is not UTF-8".to_owned(),
                _ => format!("it is not UTF-8; `*` stands for what is not: {}", shell_quote(glob)),
            }
        })
    })
}

pub(crate) fn parse_remote(text: &str) -> Result<RemoteName, String> {
    RemoteName::parse(text).map_err(|error| error.to_string())
}

/// Parses a duration within `range` seconds. The error names the accepted forms, or the range.
pub(crate) fn seconds(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| keys::seconds(&range, text)
}

pub(crate) fn parse_older_than(text: &str) -> Result<u64, String> {
    parse_age(text).map_err(|error| error.to_string())
}

pub(crate) fn parse_role(text: &str) -> Result<RoleName, String> {
    RoleName::parse(text).map_err(|error| error.to_string())
}

/// Parses a commit: at least 7 hexadecimal digits of its id.
pub(crate) fn parse_commit(text: &str) -> Result<String, String> {
    let digits = text.len() >= 7 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    digits
        .then(|| text.to_ascii_lowercase())
        .ok_or_else(|| "needs 7 or more hexadecimal digits of a commit; for the newest: --expect \"$(git rev-parse BRANCH)\"".to_owned())
}

/// Refuses a duration among the names of branches: it was meant for `--watch`, whose value needs a `=`.
pub(crate) fn not_an_interval(watch: Option<u64>, names: &[impl AsRef<OsStr>]) -> Result<(), Error> {
    let mut names = names.iter().filter_map(|name| name.as_ref().to_str());
    match (watch, names.find(|name| parse_duration(name).is_some())) {
        (Some(_), Some(interval)) => {
            Err(Error::usage(format!("{interval} would be the name of a branch here"))
                .hint(format!("for the interval: `--watch={interval}`"))
                .hint(format!("for the branch: `--branch {interval}`")))
        }
        _ => Ok(()),
    }
}
