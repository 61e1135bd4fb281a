//! Histories and journals that break the contract in one way each. The judge must report exactly that
//! violation. Each is a change to a lawful history or journal in which it finds nothing.

use super::*;

/// The start of the histories, in seconds since the epoch. Their leases last [`LENGTH`].
const BEGIN: i64 = 1_700_000_000;
const LENGTH: i64 = 60;

const RUN: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
const OTHER_RUN: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";

const LOCAL: Law = Law { remote: false, skew: 0, due: &["work"] };
const REMOTE: Law = Law { remote: true, skew: 2, due: &["work"] };

/// A commit to be made on top of the previous one.
#[derive(Clone)]
struct Made {
    /// Parents beyond the first.
    merged: Vec<&'static str>,
    /// The revision whose tree it has.
    files: &'static str,
    dated: i64,
    subject: &'static str,
    body: &'static str,
    trailers: Vec<(&'static str, String)>,
}

impl Made {
    fn new(after: i64, subject: &'static str, trailers: &[(&'static str, &str)]) -> Self {
        let trailers = trailers.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Self { merged: vec![], files: "main", dated: BEGIN + after, subject, body: "", trailers }
    }

    fn set(&mut self, key: &'static str, value: &str) {
        self.unset(key);
        self.add(key, value);
    }

    fn add(&mut self, key: &'static str, value: &str) {
        self.trailers.push((key, value.to_owned()));
    }

    fn unset(&mut self, key: &str) {
        self.trailers.retain(|(name, _)| *name != key);
    }
}

type History = Vec<Made>;

fn trigger(after: i64) -> Made {
    Made::new(after, "please work", &[("dwp-pr", "7"), ("dwp-state", "work")])
}

fn lease(after: i64, run: &str) -> Made {
    let length = LENGTH.to_string();
    let trailers = [
        ("dwp-state", "working"),
        ("dwp-origin-state", "work"),
        ("dwp-run-id", run),
        ("dwp-runner-id", "host"),
        ("dwp-lease-seconds", length.as_str()),
        ("dwp-pr", "7"),
    ];
    Made::new(after, "chore: working", &trailers)
}

/// A `stalled` commit by the attempt's own runner.
fn stalled(after: i64, run: &str) -> Made {
    let trailers = [("dwp-state", "stalled"), ("dwp-stalled-run", run), ("dwp-origin-state", "work")];
    Made { body: "`work` exited with 1.", ..Made::new(after, "chore: set stalled", &trailers) }
}

/// Trigger, lease, the command's own commit, renewal, result.
fn carried_out() -> History {
    let mut own = Made::new(20, "own work", &[]);
    let mut renewal = lease(40, RUN);
    let mut result = Made::new(50, "chore: set done", &[("dwp-state", "done")]);
    for later in [&mut own, &mut renewal, &mut result] {
        later.files = "files";
    }
    vec![trigger(0), lease(10, RUN), own, renewal, result]
}

/// Trigger, lease, the end of that lease by another runner, and a retry by hand.
fn given_up() -> History {
    let closed = Made { body: "The lease of host expired.", ..stalled(10 + LENGTH + 1, RUN) };
    let again = Made { subject: "again work", ..trigger(100) };
    vec![trigger(0), lease(10, RUN), closed, again]
}

/// Turns a history into one with a remote as arbiter.
fn on_remote(mut history: History) -> History {
    for made in &mut history {
        let is_leases = made.trailers.iter().any(|(key, value)| *key == "dwp-state" && value == "working");
        let is_result = made.subject == "chore: set done";
        if is_leases || is_result {
            made.add("dwp-source", "git:origin");
        }
    }
    history
}

/// A repository in which `main` and the tag `files` have different files.
fn court() -> Repo {
    let repo = Repo::new();
    repo.write("own.txt", "own\n");
    repo.commit_all("other files");
    repo.git(["tag", "files"]);
    repo.git(["reset", "--quiet", "--hard", "HEAD~1"]);
    repo
}

/// Puts a history on `branch`, on top of `main`. Returns the ids of its commits.
fn enact(repo: &Repo, branch: &str, history: &[Made]) -> Vec<String> {
    let mut ids = vec![repo.head("main")];
    for made in history {
        let tree = repo.git(["rev-parse", &format!("{}^{{tree}}", made.files)]);
        let below = ids.last().expect("main is below");
        let merged: String = made.merged.iter().map(|name| format!("parent {}\n", repo.head(name))).collect();
        let who = format!("Test Person <person@example.com> {} +0000", made.dated);
        let trailers: String = made.trailers.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        let text = [made.subject, made.body, &trailers].map(str::to_owned);
        let message: Vec<String> = text.into_iter().filter(|part| !part.is_empty()).collect();
        let object = format!(
            "tree {tree}\nparent {below}\n{merged}author {who}\ncommitter {who}\n\n{}",
            message.join("\n\n")
        );
        ids.push(repo.git_with_input(&["hash-object", "-t", "commit", "-w", "--stdin"], object.as_bytes()));
    }
    repo.git(["update-ref", &format!("refs/heads/{branch}"), ids.last().expect("main is below")]);
    ids.split_off(1)
}

/// The judge's findings for one history, without the branch and commit they begin with.
fn sentence(history: &[Made], law: &Law) -> Vec<String> {
    let repo = court();
    enact(&repo, "task", history);
    let wrong = judge(&repo, law, &[]);
    wrong.iter().map(|line| line.splitn(3, ' ').nth(2).unwrap_or(line).to_owned()).collect()
}

/// A change to a lawful history, and the resulting violations.
type Case<'a> = (&'a dyn Fn(&mut History), &'a [&'a str]);

/// Asserts that each change to a lawful history is reported with these words and no others.
fn each_is_named(lawful: &dyn Fn() -> History, law: &Law, cases: &[Case<'_>]) {
    assert_eq!(sentence(&lawful(), law), Vec::<String>::new(), "it is lawful");
    for (number, (change, words)) in cases.iter().enumerate() {
        let mut history = lawful();
        change(&mut history);
        assert_eq!(sentence(&history, law), *words, "case {number}");
    }
}

#[test]
fn a_branch_goes_from_state_to_lease_and_from_lease_to_state() {
    each_is_named(
        &carried_out,
        &LOCAL,
        &[
            (&|made| *made = vec![made[2].clone()], &["a branch begins with a state"]),
            (&|made| *made = vec![made[1].clone()], &["a branch begins with a state"]),
            (&|made| drop(made.drain(1..4)), &["Some(\"done\") where nobody had a lease"]),
            (&|made| drop(made.drain(1..)), &[]),
            (&|made| made[4].merged = vec!["files"], &["not one parent"]),
            (
                &|made| {
                    made.truncate(1);
                    made.push(Made::new(5, "a fix", &[]));
                },
                &["None where nobody had a lease"],
            ),
        ],
    );
}

#[test]
fn what_is_asked_again_is_what_was_asked() {
    let interrupted = || {
        let mut again = trigger(10);
        again.set("aynig-interrupted", "1");
        vec![trigger(0), lease(5, RUN), again]
    };
    each_is_named(
        &interrupted,
        &LOCAL,
        &[
            (&|made| made[2].subject = "please play", &["asks again by another title"]),
            (&|made| made[2].body = "More.", &["asks again with another body"]),
            (&|made| made[2].set("dwp-state", "other"), &["asks again with other trailers"]),
            (&|made| made[2].unset("dwp-pr"), &["asks again with more or fewer trailers"]),
            (&|made| made[2].files = "files", &["asks again with other files"]),
            (&|made| made[2].set("aynig-interrupted", "2"), &["miscounts the interruptions"]),
            (&|made| made[2].set("dwp-source", "git:origin"), &["asks again from elsewhere"]),
            (&|made| made[2].set("aynig-rescued", "refs/aynig/rescue/task/1"), &[]),
            (
                &|made| {
                    made[0].set("aynig-interrupted", "3");
                    made[2].set("aynig-interrupted", "4");
                },
                &["asks again too often"],
            ),
        ],
    );
}

/// A branch at rest, on which a deferred state is delivered and worked on.
fn delivered() -> History {
    let state = [("dwp-state", "work"), ("dwp-pr", "7"), ("aynig-deferred", OTHER_RUN)];
    let mut history = carried_out();
    history.extend([
        Made::new(60, "later work", &state),
        lease(70, OTHER_RUN),
        Made::new(80, "chore: set done", &[("dwp-state", "done")]),
    ]);
    history.iter_mut().skip(4).for_each(|made| made.files = "files");
    history
}

/// CONTRACT 5.33, 5.34
#[test]
fn a_deferred_state_is_delivered_once_to_a_branch_that_rests() {
    each_is_named(
        &delivered,
        &LOCAL,
        &[
            (
                &|made| made.push(Made { dated: BEGIN + 90, ..made[5].clone() }),
                &["a deferred state that was delivered before"],
            ),
            (&|made| made.truncate(6), &[]),
            (&|made| made[4].set("dwp-state", "work"), &["a deferred state in place of one that was due"]),
            (
                &|made| {
                    made[4].set("dwp-state", "work");
                    made[4].set("aynig-cancel", "stall");
                },
                &[],
            ),
            (&|made| made[4].files = "main", &["a deferred state that changes files"]),
            (&|made| drop(made.remove(4)), &["a deferred state over a lease"]),
            // Set at once, it names no slot.
            (&|made| made[5].unset("aynig-deferred"), &[]),
        ],
    );
}

#[test]
fn a_lease_is_its_triggers() {
    // The lease and its renewal are changed alike, so that there is one violation.
    let both = |made: &mut History, change: &dyn Fn(&mut Made)| {
        [1, 3].into_iter().for_each(|at| change(&mut made[at]))
    };
    each_is_named(
        &carried_out,
        &LOCAL,
        &[
            (
                &|made| made.insert(1, Made::new(5, "somebody's fix", &[])),
                &[
                    "None where nobody had a lease",
                    "a lease for another state",
                    "a lease with other trailers than its trigger",
                ],
            ),
            (
                &|made| made[1].merged = vec!["files"],
                &["not one parent", "a lease that is not on its trigger"],
            ),
            (&|made| made[1].files = "files", &["a lease with other files than its trigger"]),
            (
                &|made| both(made, &|lease| lease.set("dwp-origin-state", "review")),
                &["a lease for another state"],
            ),
            (&|made| both(made, &|lease| lease.unset("dwp-origin-state")), &["a lease for another state"]),
            (&|made| both(made, &|lease| lease.unset("dwp-run-id")), &["a run id that is no random UUID"]),
            (
                &|made| both(made, &|lease| lease.set("dwp-run-id", &RUN.replace("-469f", "-169f"))),
                &["a run id that is no random UUID"],
            ),
            (
                &|made| both(made, &|lease| lease.set("dwp-run-id", &RUN.replace('f', "x"))),
                &["a run id that is no random UUID"],
            ),
            (&|made| both(made, &|lease| lease.unset("dwp-runner-id")), &["a lease without its runner"]),
            (&|made| both(made, &|lease| lease.unset("dwp-lease-seconds")), &["a lease without its length"]),
            (
                &|made| both(made, &|lease| lease.set("dwp-lease-seconds", "0")),
                &["a lease without its length"],
            ),
            (
                &|made| both(made, &|lease| lease.add("dwp-source", "git:origin")),
                &["a lease with another source"],
            ),
            (
                &|made| both(made, &|lease| lease.unset("dwp-pr")),
                &["a lease with other trailers than its trigger"],
            ),
            (
                &|made| both(made, &|lease| lease.add("dwp-run-id", RUN)),
                &["dwp-run-id twice", "dwp-run-id twice"],
            ),
        ],
    );
    each_is_named(
        &|| on_remote(carried_out()),
        &REMOTE,
        &[(&|made| both(made, &|lease| lease.unset("dwp-source")), &["a lease with another source"])],
    );
}

#[test]
fn a_trigger_is_won_once_and_a_renewal_is_the_same_lease() {
    each_is_named(
        &carried_out,
        &LOCAL,
        &[
            (&|made| made[3].set("dwp-run-id", OTHER_RUN), &["a lease on a lease, and not its renewal"]),
            (&|made| made[3].set("dwp-runner-id", "other"), &["a lease on a lease, and not its renewal"]),
            (&|made| made[3].unset("dwp-pr"), &["a lease on a lease, and not its renewal"]),
            (&|made| made[3].files = "main", &["a renewal that changes files"]),
        ],
    );
    // One attempt on two branches.
    let repo = court();
    enact(&repo, "one", &carried_out());
    enact(&repo, "two", &carried_out());
    let wrong = judge(&repo, &LOCAL, &[]);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].starts_with("two ") && wrong[0].ends_with("the run id of another attempt"), "{wrong:?}");
}

#[test]
fn a_result_says_what_a_result_says() {
    let foreign = ["dwp-origin-state", "dwp-run-id", "dwp-runner-id", "dwp-lease-seconds", "dwp-stalled-run"];
    for key in foreign {
        let words = format!("a result with {key}");
        each_is_named(&carried_out, &LOCAL, &[(&|made| made[4].add(key, "x"), &[&words])]);
    }
    let source = "dwp-source Some(\"git:origin\")";
    each_is_named(
        &carried_out,
        &LOCAL,
        &[
            (&|made| made[4].add("dwp-source", "git:origin"), &[source]),
            (&|made| made[4].add("dwp-state", "review"), &["dwp-state twice"]),
        ],
    );
    each_is_named(
        &|| on_remote(carried_out()),
        &REMOTE,
        &[
            (&|made| made[4].unset("dwp-source"), &["dwp-source None"]),
            (&|made| made[4].set("dwp-source", "git:other"), &["dwp-source Some(\"git:other\")"]),
        ],
    );
}

#[test]
fn a_lease_is_closed_by_its_name_and_not_before_its_end() {
    let early = "recovered before its end";
    each_is_named(
        &given_up,
        &LOCAL,
        &[
            (
                &|made| made[2].set("dwp-stalled-run", OTHER_RUN),
                &["closes another attempt than the one below it"],
            ),
            (&|made| made[2].unset("dwp-stalled-run"), &["closes another attempt than the one below it"]),
            (&|made| made[2].unset("dwp-origin-state"), &["closes another attempt than the one below it"]),
            (&|made| made[2].files = "files", &["a stalled commit that changes files"]),
            (&|made| made[2].add("dwp-run-id", RUN), &["a stalled commit with dwp-run-id"]),
            (&|made| made[2].add("dwp-source", "git:origin"), &["a stalled commit with dwp-source"]),
            (&|made| made[2].add("dwp-stalled-run", RUN), &["dwp-stalled-run twice"]),
            (&|made| made[2].dated -= 1, &[early]),
            // A renewal and a commit of the command are signs of life.
            (&|made| made.insert(2, lease(30, RUN)), &[early]),
            (&|made| made.insert(2, Made::new(30, "own work", &[])), &[early]),
            // The commit at HEAD decides, even if the command's clock is ahead of its runner's
            // (CONTRACT 5.4).
            (&|made| made.splice(2..2, [Made::new(30, "own work", &[]), lease(10, RUN)]).for_each(drop), &[]),
            // Its own runner may close it at any time.
            (&|made| made[2] = stalled(11, RUN), &[]),
        ],
    );
    let late = || {
        let mut history = on_remote(given_up());
        history[2].dated += REMOTE.skew;
        history
    };
    each_is_named(&late, &REMOTE, &[(&|made| made[2].dated -= 1, &[early])]);
}

/// Trigger, lease, a request to stop after 10 s, and what its runner makes of it.
fn cancelled() -> History {
    let mut request = Made::new(20, "cancel: work", &[]);
    request.trailers = lease(20, RUN).trailers;
    request.set("dwp-lease-seconds", "50");
    request.add("aynig-cancel", "stall");
    let mut end = Made { body: "`work` was cancelled by Test Person.", ..stalled(25, RUN) };
    end.add("aynig-cancel", "stall");
    vec![trigger(0), lease(10, RUN), request, end]
}

/// CONTRACT 5.30, 5.36
#[test]
fn a_request_is_on_its_lease_and_its_end_says_so() {
    let recovered = |made: &mut History| {
        made[3].body = "The lease of host expired.";
        made[3].dated += LENGTH;
    };
    let lost = |made: &mut History| {
        recovered(made);
        made[3].unset("aynig-cancel");
    };
    each_is_named(
        &cancelled,
        &LOCAL,
        &[
            (&|made| made[2].set("dwp-run-id", OTHER_RUN), &["a request that is not on this lease"]),
            (&|made| made[2].set("dwp-lease-seconds", "60"), &["a request that lengthens the lease"]),
            (
                &|made| made[2].files = "files",
                &["a renewal that changes files", "a stalled commit that changes files"],
            ),
            (&|made| drop(made.remove(2)), &["cancelled, and nobody asked"]),
            (&|made| made[2].set("aynig-cancel", "requeue"), &["cancelled, and nobody asked"]),
            // Its command had ended before.
            (&|made| made[3].unset("aynig-cancel"), &[]),
            (&recovered, &[]),
            (&lost, &["recovered without the request on the lease"]),
            // Its state asked again, and a result of before.
            (&|made| made[3] = trigger(25), &[]),
        ],
    );
    let alone = || {
        let mut end =
            Made::new(20, "stalled: cancelled", &[("dwp-state", "stalled"), ("dwp-origin-state", "work")]);
        end.body = "Cancelled by Test Person.";
        end.add("aynig-cancel", "stall");
        vec![trigger(0), end]
    };
    let other = "cancels something else than the request below it";
    each_is_named(
        &alone,
        &LOCAL,
        &[
            (&|made| made[1].set("dwp-origin-state", "check"), &[other]),
            (&|made| made[1].files = "files", &[other]),
            (&|made| made[1].add("dwp-run-id", RUN), &["a cancelled request with dwp-run-id"]),
        ],
    );
}

/// One branch on which two attempts followed each other, and what their commands noted.
struct Field {
    repo: Repo,
    triggers: [String; 2],
}

impl Field {
    /// The first attempt was closed by another runner if `recovered`, else by its own.
    fn new(recovered: bool) -> Self {
        let repo = court();
        let mut history = given_up();
        if !recovered {
            history[2] = stalled(30, RUN);
        }
        history.push(lease(110, OTHER_RUN));
        let ids = enact(&repo, "task", &history);
        let triggers = [ids[0].clone(), ids[3].clone()];
        Self { repo, triggers }
    }

    fn line(&self, word: &str, attempt: usize, at: u64) -> String {
        format!("{word} {} task {} {at} 1", [RUN, OTHER_RUN][attempt], self.triggers[attempt])
    }

    fn lawful(&self) -> Vec<String> {
        let note = |word, attempt, at| self.line(word, attempt, at);
        vec![note("began", 0, 10), note("ended", 0, 20), note("began", 1, 30), note("ended", 1, 40)]
    }

    #[track_caller]
    fn says(&self, journal: &[String], words: &[String]) {
        assert_eq!(judge(&self.repo, &LOCAL, journal), *words);
    }
}

#[test]
fn a_step_is_run_once_and_under_its_lease() {
    let field = Field::new(false);
    let [first, _] = &field.triggers;
    let lawful = field.lawful();
    field.says(&lawful, &[]);
    let with = |line: String| [&lawful[..], &[line]].concat();

    field.says(&with(field.line("began", 1, 31)), &[format!("task: attempt {OTHER_RUN} began twice")]);
    let stray = "11111111-2222-4333-8444-555555555555";
    field.says(
        &with(format!("began {stray} task {first} 50 1")),
        &[
            format!("task: {first} was run by {RUN} and by {stray}"),
            format!("task: attempt {stray} ran without a lease"),
        ],
    );
    field.says(
        &with(format!("ended {stray} task {first} 50 1")),
        &[format!("task: attempt {stray} ended and never began")],
    );
    let elsewhere = [lawful[0].replace(first, &field.repo.head("main")), lawful[0].replace("task", "other")];
    for line in elsewhere {
        let branch = line.split(' ').nth(2).expect("the branch").to_owned();
        let words = format!("{branch}: attempt {RUN} ran for another commit");
        field.says(&[line, lawful[2].clone()], &[words]);
    }
}

#[test]
fn two_attempts_run_at_the_same_time_only_if_the_first_was_taken_for_dead() {
    for (recovered, words) in
        [(false, vec![format!("task: {RUN} and {OTHER_RUN} ran at the same time")]), (true, vec![])]
    {
        let field = Field::new(recovered);
        let mut journal = field.lawful();
        journal[1] = field.line("made", 0, 31);
        field.says(&journal, &words);
    }
}

#[test]
fn work_that_no_commit_has_is_lost() {
    let (repo, host) = (court(), court());
    let journal = [format!("made {RUN} task x 1 1"), format!("made {OTHER_RUN} task x 1 1")];
    for run in [RUN, OTHER_RUN] {
        repo.write(&format!("own-{run}"), "1\n");
        repo.write(&format!("staged-{run}"), "1\n");
    }
    repo.commit_all("results");
    let loose = [RUN, OTHER_RUN].map(|run| format!("loose-{run}"));
    assert_eq!(lost_work(&[&repo, &host], &journal), loose);
    host.write(&loose[0], "1\n");
    let saved = host.commit_all("saved");
    host.git(["reset", "--quiet", "--hard", "HEAD~1"]);
    assert_eq!(lost_work(&[&repo, &host], &journal), loose, "a commit that no ref leads to saves nothing");
    host.git(["update-ref", "refs/aynig/rescue/task/x", &saved]);
    assert_eq!(lost_work(&[&repo, &host], &journal), loose[1..]);
}
