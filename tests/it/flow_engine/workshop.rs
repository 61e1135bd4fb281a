//! Scripted planners, agents that speak `jsonl`, and what runs left for later decisions.

use super::agent::agent;
use super::*;

/// Lets `aynig.evaluator` keep each envelope as `.git/envelope-N`, and give these answers, one at a call.
pub(super) fn planner(repo: &Repo, answers: &[&str]) {
    let git = repo.path.join(".git");
    std::fs::write(git.join("answers"), format!("{}\n", answers.join("\n"))).expect("a file");
    std::fs::write(git.join("calls"), "").expect("a file");
    let git = git.display();
    let line = format!(
        "echo >>{git}/calls; n=$(wc -l <{git}/calls); cat >{git}/envelope-$n; sed -n \"${{n}}p\" {git}/answers"
    );
    repo.git(["config", "aynig.evaluator", &line]);
}

/// The envelope of the planner's call with this number.
pub(super) fn envelope(repo: &Repo, call: usize) -> Value {
    let text = std::fs::read(repo.path.join(format!(".git/envelope-{call}"))).expect("an envelope");
    serde_json::from_slice(&text).expect("JSON")
}

/// Makes a provider that speaks `jsonl`. The script finds the prompt's line in `$line`, and `say TEXT` ends its turn.
pub(super) fn speaker(repo: &Repo, name: &str, script: &str) {
    let begin = "say() { printf '{\"type\":\"message.assistant.final\",\"content\":\"%s\"}\\n' \"$1\"; }\nread -r line\n";
    agent(repo, name, &format!("{begin}{script}"));
    repo.git(["config", &format!("aynig.provider.{name}.protocol"), "jsonl"]);
}

/// The ends of the steps of a run, in their order: the events `step.ended`, with the step's id in `id`.
pub(super) fn ended(repo: &Repo, run: &Started) -> Vec<Value> {
    let lines = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
    let (mut id, mut all) = (Value::Null, Vec::new());
    for line in lines.lines() {
        let mut event = serde_json::from_str::<Value>(line).expect("JSON")["event"].clone();
        match event["type"].as_str() {
            Some("step.started") => id = event["step"]["id"].clone(),
            Some("step.ended") => {
                event["id"] = id.clone();
                all.push(event);
            }
            _ => {}
        }
    }
    all
}

/// How a step ended each time: its outcome and the flags of its record.
pub(super) fn rulings(repo: &Repo, run: &Started, id: &str) -> Vec<String> {
    let all = ended(repo, run).into_iter().filter(|event| event["id"] == id);
    let words = all.map(|event| {
        let flags = event["record"]["flags"].as_array().cloned().unwrap_or_default();
        let flags = flags.iter().map(|flag| format!(" {}", flag.as_str().expect("a word")));
        format!("{}{}", event["outcome"].as_str().expect("a word"), flags.collect::<String>())
    });
    words.collect()
}

/// A file of the newest attempt of a step.
pub(super) fn kept(run: &Started, step: &str, file: &str) -> String {
    let above = run.directory.join("artifacts").join(step);
    let manifest = std::fs::read(above.join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    let path = above.join(manifest["attempt"].to_string()).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A JSON file of the newest attempt of a step.
pub(super) fn kept_json(run: &Started, step: &str, file: &str) -> Value {
    serde_json::from_str(&kept(run, step, file)).expect("JSON")
}

/// The message of the driver's newest commit.
pub(super) fn said(repo: &Repo, run: &Started) -> String {
    repo.git(["log", "-1", "--format=%B", &run.driver])
}

/// Lets a provider play a stream of the fixtures: before the first line that has the first text of `reads`, a line with the
/// second text must come. Its arguments are in `.git/NAME.argv`, and what it reads in `.git/NAME.read`. It ends after the
/// line that has `until`, if that is not empty, and after what `then` says.
pub(super) fn player(
    repo: &Repo,
    (name, kind): (&str, &str),
    stream: &str,
    reads: &played::Reads,
    (until, then): (&str, &str),
) {
    let steps = played::steps(stream, reads, until);
    let git = repo.path.join(".git");
    std::fs::write(git.join(format!("{name}.steps")), steps + then).expect("steps");
    let place = git.join(name);
    let place = place.display();
    let script = format!(
        r#"printf '%s\n' "$@" >{place}.argv; : >{place}.read
while IFS= read -r step <&3; do
    case $step in
        '<'*) IFS= read -r line || exit 8; printf '%s\n' "$line" >>{place}.read
            case $line in *"${{step#?}}"*) ;; *) echo "expected ${{step#?}}, got $line" >&2; exit 9 ;; esac ;;
        '>'*) printf '%s\n' "${{step#?}}" ;;
        .) IFS= read -r line && exit 7 ;;
    esac
done 3<{place}.steps
echo played >&2; echo work >work
exit 0"#
    );
    agent(repo, name, &script);
    repo.git(["config", &format!("aynig.provider.{name}.kind"), kind]);
    repo.git(["config", "--unset", &format!("aynig.provider.{name}.protocol")]);
}

/// A file of the repository's git directory.
pub(super) fn noted(repo: &Repo, name: &str) -> String {
    let path = repo.path.join(".git").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The roles of the newest attempt of a step.
pub(super) fn roles(run: &Started, step: &str) -> Vec<String> {
    let manifest = kept_json(run, step, "manifest.json");
    let listed = manifest["artifacts"].as_array().expect("a list").iter();
    listed.map(|one| one["role"].as_str().expect("a word").to_owned()).collect()
}
