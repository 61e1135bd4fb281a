//! The options of `aynig run` that are settings, generated from their table.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use aynig::ops::settings::keys::{Fallback, Flag, KEYS, Key, Takes, Value};

use crate::cli::args::parse::glob;

/// The settings that were given as options.
#[derive(Debug, Clone)]
pub(crate) struct Given(pub Vec<(&'static Key, OsString)>);

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        options().fold(command, |command, (key, flag)| command.arg(argument(key, flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for (key, flag) in options() {
            if matches.value_source(&id(flag)) != Some(ValueSource::CommandLine) {
                continue;
            }
            match flag.takes {
                Takes::Value(_) => {
                    let values = matches.get_raw(&id(flag)).into_iter().flatten();
                    given.extend(values.map(|value| (key, value.to_owned())));
                }
                Takes::True => given.push((key, "true".into())),
                Takes::False(_) => given.push((key, "false".into())),
            }
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn options() -> impl Iterator<Item = (&'static Key, &'static Flag)> {
    KEYS.iter().filter_map(|key| Some((key, key.option.as_ref()?)))
}

/// The argument's id in clap, spelt like the ids that `derive` generates.
fn id(flag: &Flag) -> String {
    flag.long.replace('-', "_")
}

fn argument(key: &'static Key, flag: &'static Flag) -> Arg {
    let argument = Arg::new(id(flag)).long(flag.long);
    let argument = match flag.short {
        Some(letter) => argument.short(letter),
        None => argument,
    };
    let name = match flag.takes {
        Takes::Value(name) => name,
        Takes::True => return argument.help(key.help).action(ArgAction::SetTrue),
        Takes::False(help) => return argument.help(help).action(ArgAction::SetTrue),
    };
    let action = if key.is_repeatable() { ArgAction::Append } else { ArgAction::Set };
    let is_number = matches!(key.value, Value::Number(..) | Value::Seconds(..));
    let argument = argument.value_name(name).action(action).value_parser(parser(key));
    let argument = argument.allow_negative_numbers(is_number);
    let argument = match key.default {
        Fallback::Value(value) => argument.default_value(value),
        Fallback::Words(_) => argument,
    };
    match flag.default {
        "" => argument.help(key.help),
        from => argument.help(format!("{} [default: {from}]", key.help)),
    }
}

fn parser(key: &'static Key) -> ValueParser {
    match &key.value {
        Value::Word(words) => {
            let words = words.iter().map(|word| PossibleValue::new(word.word).help(word.help));
            PossibleValuesParser::new(words).into()
        }
        Value::Path(_) => value_parser!(PathBuf),
        Value::Text(_) => NonEmptyStringValueParser::new().into(),
        // The subcommand reports a bad glob together with the option's name.
        Value::Glob(_) => ValueParser::new(glob()),
        Value::Flag(_) | Value::Number(..) | Value::Seconds(..) | Value::Line(_) | Value::Name(_) => {
            ValueParser::new(|text: &str| key.check(text.as_ref()).map(|()| text.to_owned()))
        }
    }
}
