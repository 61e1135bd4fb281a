//! Shell completion: the script that a shell loads, and the answers to its requests.
//!
//! The shell runs this binary with `AYNIG_COMPLETE` set on each press of Tab, so branches, remotes, roles and
//! states come from the current repository. No trailer can set that variable (CONTRACT.md §3).
//!
//! Invariants: answering starts no git, fetches nothing, and prints only candidates; outside a repository
//! there are none that depend on one. Names with shell metacharacters are left out: bash inserts candidates
//! unquoted, and anyone with push access can choose a branch name.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use bstr::ByteSlice;
use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};

use aynig::contract::head::Head;
use aynig::contract::ids::{CommitId, RemoteName};
use aynig::contract::report::is_invisible_order;
use aynig::git::repo::open::GitVariables;
use aynig::git::{Repo, Store};
use aynig::ops::error::Error;
use aynig::ops::runs;
use aynig::runner::attempt::files;
use aynig::runner::shell_quote;

use crate::cli::args::{Arguments, Completions, Shell};
use crate::cli::exit::Exit;
use crate::cli::help::pages::SOURCES;
use crate::cli::ui;

/// Names the shell that this process should answer.
const VARIABLE: &str = "AYNIG_COMPLETE";

/// At most this many branches have their newest commit read for its state; more would take noticeably long.
const HEADS_READ: usize = 500;

/// `aynig completions SHELL`: the lines a shell reads.
pub(crate) fn run(arguments: &Completions) -> Result<Exit, Error> {
    let shell = arguments.shell.name();
    let shells = Shells::builtins();
    let adapter = shells.completer(shell).expect("every shell in `args` is one that clap_complete knows");
    let mut script = Vec::new();
    adapter
        .write_registration(VARIABLE, "aynig", "aynig", "aynig", &mut script)
        .expect("memory takes every byte");
    let mut script = script.to_str_lossy().trim().to_owned();
    if arguments.shell == Shell::Zsh {
        script.push_str(ZSH_FIRST_TIME);
    }
    ui::answer_bytes(format!("{script}\n").as_bytes());
    Ok(Exit::Done)
}

/// zsh loads the file from `fpath` as the body of the completion function, so the first call must complete
/// too.
const ZSH_FIRST_TIME: &str = r#"

if [ "${funcstack[1]}" = "_aynig" ]; then
    _clap_dynamic_completer_aynig "$@"
fi"#;

/// Answers a shell's request for candidates. Returns whether there was one.
pub(crate) fn answer(variables: &GitVariables) -> clap::error::Result<bool> {
    let here = std::env::current_dir().ok();
    let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let place = Arc::new(Place {
        variables: variables.clone(),
        start: start(&words, here.clone()),
        remote: remote(&words),
    });
    CompleteEnv::with_factory(|| with_candidates(&place))
        .var(VARIABLE)
        .bin("aynig")
        .completer("aynig")
        .try_complete(std::env::args_os(), here.as_deref())
}

/// The place that the words before the cursor select.
struct Place {
    variables: GitVariables,
    start: PathBuf,
    remote: Option<RemoteName>,
}

/// The kind of thing that an option's value names.
#[derive(Clone, Copy)]
enum Kind {
    Attempt,
    Branch,
    Page,
    Ref,
    Remote,
    Role,
    Run,
    State,
}

fn with_candidates(place: &Arc<Place>) -> Command {
    below(Arguments::command(), place)
}

/// A command with the candidates of its arguments, and of those of the commands below it.
fn below(command: Command, place: &Arc<Place>) -> Command {
    let command = command.mut_args(|argument| {
        let Some(kind) = kind(&argument) else { return with_hint(argument) };
        let place = Arc::clone(place);
        argument.add(ArgValueCandidates::new(move || place.candidates(kind)))
    });
    command.mut_subcommands(|verb| below(verb, place))
}

/// Determines the kind from the argument's id, which is the same in every subcommand.
fn kind(argument: &Arg) -> Option<Kind> {
    match argument.get_id().as_str() {
        // A branch name also names its newest commit.
        "branch" | "into" | "name" | "names" | "commit" => Some(Kind::Branch),
        "attempt" => Some(Kind::Attempt),
        "page" => Some(Kind::Page),
        "commands_from" => Some(Kind::Ref),
        "remote" => Some(Kind::Remote),
        "role" => Some(Kind::Role),
        "run_name" => Some(Kind::Run),
        "state" | "states" => Some(Kind::State),
        _ => None,
    }
}

/// Paths are untrusted too: anyone with push access chooses the names of files in a checkout.
fn with_hint(argument: Arg) -> Arg {
    let argument = match argument.get_id().as_str() {
        "directory" | "worktree" | "place" | "repository" => argument.value_hint(ValueHint::DirPath),
        _ => argument,
    };
    let paths = match argument.get_value_hint() {
        ValueHint::DirPath => PathCompleter::dir,
        ValueHint::AnyPath | ValueHint::FilePath | ValueHint::ExecutablePath => PathCompleter::any,
        _ => return argument,
    };
    argument.add(ArgValueCompleter::new(move |so_far: &OsStr| {
        let sanitize = |found: &CompletionCandidate| {
            found.get_value().to_str().is_some_and(|name| shell_quote(name) == name)
        };
        paths().complete(so_far).into_iter().filter(sanitize).collect::<Vec<_>>()
    }))
}

impl Place {
    fn candidates(&self, kind: Kind) -> Vec<CompletionCandidate> {
        let names = if matches!(kind, Kind::Page) { pages() } else { self.names(kind) };
        names.into_iter().filter(|name| is_safe(name)).map(CompletionCandidate::new).collect()
    }

    fn names(&self, kind: Kind) -> BTreeSet<String> {
        let Ok(store) = Store::open(&self.start, &self.variables, None) else { return BTreeSet::new() };
        let repo = store.handle();
        match kind {
            Kind::Page => pages(),
            Kind::Attempt => files::all(&repo).into_iter().map(|record| record.attempt).collect(),
            Kind::Branch => self.branches(&repo),
            Kind::Ref => {
                let mut names = self.branches(&repo);
                for remote in remotes(&repo) {
                    names.extend(fetched(&repo, &remote).iter().map(|branch| format!("{remote}/{branch}")));
                }
                names
            }
            Kind::Remote => remotes(&repo).iter().map(ToString::to_string).collect(),
            Kind::Role => commands(&repo).into_iter().filter_map(|(role, _)| role).collect(),
            Kind::Run => runs::names(&repo),
            Kind::State => {
                commands(&repo).into_iter().map(|(_, state)| state).chain(declared(&repo)).collect()
            }
        }
    }

    /// The branches of the repository, and of the remote given on the command line, else of the one that decides.
    fn branches(&self, repo: &Repo) -> BTreeSet<String> {
        let local = repo.branches().unwrap_or_default();
        let mut names: BTreeSet<String> = local.iter().map(|tip| tip.branch.to_string()).collect();
        let decides = || RemoteName::parse(repo.config("aynig.remote")?).ok();
        if let Some(remote) = self.remote.clone().or_else(decides) {
            names.extend(fetched(repo, &remote));
        }
        names
    }
}

/// Whether a name can be inserted into a command line unquoted. Shells treat no non-ASCII character
/// specially, but terminals may.
fn is_safe(name: &str) -> bool {
    let (ascii, beyond): (String, String) = name.chars().partition(char::is_ascii);
    let harmful = |c: char| c.is_control() || c.is_whitespace() || is_invisible_order(c);
    (ascii.is_empty() || shell_quote(&ascii) == ascii) && !beyond.contains(harmful)
}

/// The names of the manual's pages, without the common beginning.
fn pages() -> BTreeSet<String> {
    SOURCES.iter().filter_map(|page| page.name.strip_prefix("aynig-")).map(str::to_owned).collect()
}

fn remotes(repo: &Repo) -> Vec<RemoteName> {
    repo.remote_names().iter().filter_map(|name| RemoteName::parse(name).ok()).collect()
}

/// The branches of a remote as the last pass fetched them.
fn fetched(repo: &Repo, remote: &RemoteName) -> Vec<String> {
    let tips = repo.fetched_branches(remote).unwrap_or_default();
    tips.iter().map(|tip| tip.branch.to_string()).collect()
}

/// The commands in the checkout's newest commit, as role and state.
fn commands(repo: &Repo) -> Vec<(Option<String>, String)> {
    let tree = newest(repo).and_then(|head| repo.directory_at(head, ".aynig").ok().flatten());
    let paths = tree.and_then(|tree| repo.paths_in(tree).ok()).unwrap_or_default();
    let split = |path: &String| match path.split('/').collect::<Vec<_>>()[..] {
        ["command", state] => Some((None, state.to_owned())),
        ["roles", role, "command", state] => Some((Some(role.to_owned()), state.to_owned())),
        _ => None,
    };
    paths.iter().filter_map(split).collect()
}

/// The newest commit of the checkout; in a bare repository, of the branch that HEAD names.
fn newest(repo: &Repo) -> Option<CommitId> {
    repo.checkout().and_then(|checkout| repo.checked_out(&checkout)).or_else(|| repo.parse_commit("HEAD"))
}

/// The states that branches declare now, except the runner's own.
fn declared(repo: &Repo) -> BTreeSet<String> {
    let tips = repo.branches().unwrap_or_default();
    let commits = tips.iter().take(HEADS_READ).filter_map(|tip| repo.commit(*tip.target.as_ref().ok()?).ok());
    commits
        .filter_map(|commit| Head::read(&commit.facts()).state())
        .filter(|state| !state.is_working())
        .map(|state| state.to_string())
        .collect()
}

/// The directory that the words so far select (`aynig -C DIR …`).
fn start(words: &[OsString], here: Option<PathBuf>) -> PathBuf {
    let here = here.unwrap_or_default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.to_str().and_then(|word| word.strip_prefix("-C")) {
            Some("") => return words.next().map_or(here.clone(), |directory| here.join(directory)),
            Some(directory) => return here.join(directory),
            None => {}
        }
    }
    here
}

/// The remote that the words so far select.
fn remote(words: &[OsString]) -> Option<RemoteName> {
    let mut words = words.iter().filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix("--remote") else { continue };
        let name = if rest.is_empty() { words.next() } else { rest.strip_prefix('=') };
        // bash passes `=` as a word of its own.
        let name = if name == Some("=") { words.next() } else { name };
        return name.and_then(|name| RemoteName::parse(name).ok());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_words_so_far_say_where_to_look() {
        let here = || Some(PathBuf::from("/here"));
        for (line, wanted) in [
            ("aynig run --branch x", "/here"),
            ("aynig -C there run", "/here/there"),
            ("aynig -Cthere run", "/here/there"),
            ("aynig run -C /there --branch", "/there"),
            ("aynig -C", "/here"),
        ] {
            assert_eq!(start(&words(line), here()), PathBuf::from(wanted), "{line}");
        }
        for (line, wanted) in [
            ("aynig run --remote hub --branch x", Some("hub")),
            ("aynig run --remote=hub", Some("hub")),
            ("aynig run --remote = hub --branch", Some("hub")),
            ("aynig run --remote", None),
            ("aynig run", None),
        ] {
            let found = remote(&words(line)).map(|remote| remote.to_string());
            assert_eq!(found.as_deref(), wanted, "{line}");
        }
    }

    #[test]
    fn what_a_shell_or_a_terminal_acts_on_is_not_offered() {
        for name in ["f1", "feat/one", "ünïcode", "日本", "party-\u{1f389}", "a@b+c=d,e"] {
            assert!(is_safe(name), "{name}");
        }
        for name in
            ["a b", "a;b", "$x", "a'b", "ü;x", "`x`", "a\u{202e}b", "a\u{9b}b", "a\u{3000}b", "a\u{85}b"]
        {
            assert!(!is_safe(name), "{name:?}");
        }
    }

    #[test]
    fn every_name_the_candidates_go_by_is_an_argument() {
        let command = Arguments::command();
        let verbs: Vec<&Command> = command.get_subcommands().chain([&command]).collect();
        let verbs = verbs.iter().flat_map(|verb| verb.get_subcommands().chain([*verb]));
        let verbs: Vec<&Command> = verbs.collect();
        let has =
            |id: &str| verbs.iter().any(|verb| verb.get_arguments().any(|argument| argument.get_id() == id));
        for id in [
            "attempt",
            "branch",
            "commit",
            "into",
            "name",
            "page",
            "commands_from",
            "remote",
            "role",
            "run_name",
            "state",
            "states",
            "directory",
            "worktree",
            "place",
            "repository",
        ] {
            assert!(has(id), "{id}");
        }
    }
}
