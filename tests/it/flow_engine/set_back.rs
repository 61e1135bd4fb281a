//! Hubs that lose the end of a ledger: a backup is restored there, or a push is forced.

use super::back::TWO;
use super::hosts::Field;
use super::*;

/// Appends its prompt to a file of the work, and to a list that survives everything.
fn counting(list: &std::path::Path) -> String {
    format!("read -r what; echo \"$what\" >>work; echo \"$what\" >>{}; echo \"did $what\"", list.display())
}

/// A field whose first host has carried a run out up to its gate, and the refs of the hub before that.
struct Scene {
    field: Field,
    run: Started,
    /// The ledger, the driver and the work branch: their names, and their commits at first.
    refs: [(String, String); 3],
    list: std::path::PathBuf,
    _room: Repo,
}

impl Scene {
    fn new() -> Self {
        let room = Repo::new();
        let list = room.beside("asked");
        let field = Field::new(&counting(&list));
        let run = start(&field.hosts[0], &flow("one", TWO));
        let names = [
            format!("refs/aynig/runs/{}", run.id),
            format!("refs/heads/{}", run.driver),
            format!("refs/aynig/work/{}/flow", run.id),
        ];
        let refs = names.map(|name| {
            let at = field.at_hub(&name);
            (name, at)
        });
        field.hosts[0].aynig_ok(["run", "--drain"]);
        Self { field, run, refs, list, _room: room }
    }

    fn ledger(&self) -> &str {
        &self.refs[0].0
    }

    /// What agents were asked to do, in their order.
    fn asked(&self) -> Vec<String> {
        let list = std::fs::read_to_string(&self.list).unwrap_or_default();
        list.lines().map(str::to_owned).collect()
    }

    /// Sets the first `count` refs of the hub back.
    fn set_back(&self, count: usize) {
        let hub = self.field.hub.beside("hub.git");
        for (name, commit) in &self.refs[..count] {
            self.field.hub.git(["-C", hub.to_str().expect("UTF-8"), "update-ref", name, commit]);
        }
    }

    /// Types a command of the last output that begins with these words.
    fn types(&self, host: &Repo, words: &str, beginning: &str) {
        let command = words.split('`').find(|words| words.starts_with(beginning));
        let command = command.unwrap_or_else(|| panic!("no {beginning} in {words}"));
        sh(host, command);
    }
}

fn rescued(host: &Repo) -> Vec<String> {
    let refs = host.git(["for-each-ref", "--format=%(refname)", "refs/aynig/rescue/ledgers"]);
    refs.lines().map(str::to_owned).collect()
}

fn resumes(host: &Repo, run: &Started) {
    host.aynig_ok(["flow", "resume", &run.slug]);
    host.aynig_ok(["flow", "approve", &run.slug]);
    host.aynig_ok(["run", "--drain"]);
    assert_eq!(end(host, run), ["completed", "succeeded", "completed"]);
}

/// CONTRACT 16.11
#[test]
fn a_ledger_that_the_hub_set_back_is_kept_and_its_run_is_held() {
    let scene = Scene::new();
    let ([first, _], run) = (&scene.field.hosts, &scene.run);
    let newest = first.git(["rev-parse", scene.ledger()]);
    scene.set_back(1);
    let refused = first.aynig(["flow", "approve", &run.slug]);
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    let words = err(&refused);
    assert_eq!(first.git(["rev-parse", scene.ledger()]), newest, "{words}");
    let kept = rescued(first);
    assert_eq!(kept.iter().map(|name| first.git(["rev-parse", name])).collect::<Vec<_>>(), [&*newest]);
    let accepts = format!("aynig flow resume --accept {}", run.slug);
    for part in [&run.slug, &newest[..10], &scene.refs[0].1[..10], &kept[0], &accepts] {
        assert!(words.contains(part), "{part}: {words}");
    }
    // The run is shown as this host knows it, and no warning is printed again.
    let shown = first.aynig_ok(["flow", "show", &run.slug]);
    assert!(out(&shown).contains("was set back at origin"), "{}", told(&shown));
    assert_eq!(err(&shown), "");
    assert_eq!(steps(first, run), ["one completed two", "two completed ask", "ask"]);
    let shown = json(&first.aynig_ok(["flow", "show", &run.slug, "--json"]));
    assert_eq!(shown["place"], "stuck");
    let next = shown["next"].as_array().expect("commands");
    assert!(next.iter().any(|command| command == &*accepts), "{shown}");
    for command in [&["run", "--drain"][..], &["clean", "--older-than", "0s", "--apply"]] {
        first.aynig(command.iter().copied());
    }
    assert_eq!(scene.asked(), ["one", "two"]);
    assert_eq!(rescued(first), kept);
    // The hub gets it again.
    scene.types(first, &words, "git push ");
    assert_eq!(scene.field.at_hub(scene.ledger()), newest);
    resumes(first, run);
    assert_eq!(rescued(first), Vec::<String>::new(), "the hub has it");
    assert_eq!(scene.asked(), ["one", "two"]);
    scene.field.assert_same(run);
}

/// CONTRACT 16.11, 20.3
#[test]
fn no_step_is_carried_out_again_on_a_host_that_knows_its_end() {
    let scene = Scene::new();
    let ([first, second], run) = (&scene.field.hosts, &scene.run);
    scene.set_back(3);
    let ran = first.aynig(["run", "--drain"]);
    assert_eq!(scene.asked(), ["one", "two"], "{}", told(&ran));
    let shown = first.aynig_ok(["flow", "show", &run.slug, "--json"]);
    let next = json(&shown)["next"][0].as_str().expect("a command").to_owned();
    scene.types(first, &format!("`{next}`"), "git push ");
    // Work and ledger are there again, for the other host, too.
    assert_eq!(scene.field.at_hub(&scene.refs[2].0), first.head(&run.work));
    first.aynig_ok(["flow", "resume", &run.slug]);
    second.aynig_ok(["flow", "list"]);
    resumes(second, run);
    assert_eq!(scene.asked(), ["one", "two"]);
    scene.field.assert_same(run);
}

/// CONTRACT 16.11, 20.14
#[test]
fn a_person_accepts_what_the_hub_has_and_the_rest_is_kept() {
    let scene = Scene::new();
    let ([first, second], run) = (&scene.field.hosts, &scene.run);
    let newest = first.git(["rev-parse", scene.ledger()]);
    scene.set_back(1);
    // A host that does not know the rest carries it on. The driver rests, and the command that helps is named.
    second.aynig_ok(["flow", "list"]);
    let shown = json(&second.aynig_ok(["flow", "show", &run.slug, "--json"]));
    assert_eq!(shown["next"][0], format!("aynig flow resume {}", run.slug));
    assert!(!shown["words"].as_str().expect("words").contains("flow show"), "{shown}");
    second.aynig_ok(["flow", "resume", &run.slug]);
    second.aynig_ok(["run"]);
    assert_eq!(steps(second, run), ["one completed two"]);
    // A plain resume accepts nothing.
    for _ in 0..2 {
        let refused = first.aynig(["flow", "resume", &run.slug]);
        assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    }
    assert_eq!(first.git(["rev-parse", scene.ledger()]), newest);
    let accepted = first.aynig_ok(["flow", "resume", "--accept", &run.slug]);
    let kept = rescued(first);
    assert_eq!(kept.iter().map(|name| first.git(["rev-parse", name])).collect::<Vec<_>>(), [&*newest]);
    assert!(told(&accepted).contains(&kept[0]), "{}", told(&accepted));
    first.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(first, run), ["one completed two", "two completed ask", "ask"]);
    assert_eq!(scene.asked(), ["one", "two", "one", "two"]);
    first.aynig_ok(["flow", "approve", &run.slug]);
    first.aynig_ok(["run", "--drain"]);
    assert_eq!(end(first, run), ["completed", "succeeded", "completed"]);
    let doctor = first.aynig(["orch", "doctor", &run.slug]);
    assert!(doctor.status.success(), "{}", told(&doctor));
    let cleaned = first.aynig_ok(["clean"]);
    assert!(out(&cleaned).contains("git log "), "{}", told(&cleaned));
    assert_eq!(rescued(first), kept);
}

/// CONTRACT 16.11
#[test]
fn the_operations_of_a_hub_that_went_another_way_are_replaced_only_as_they_were_seen() {
    let scene = Scene::new();
    let ([first, second], run) = (&scene.field.hosts, &scene.run);
    let newest = first.git(["rev-parse", scene.ledger()]);
    scene.set_back(3);
    second.aynig_ok(["run"]);
    let listed = first.aynig_ok(["flow", "list"]);
    let words = err(&listed);
    assert!(words.contains("was set back at origin"), "{}", told(&listed));
    assert_eq!(err(&first.aynig_ok(["flow", "list"])), "", "it is reported once");
    // The command that was printed is of no use once the hub has moved.
    second.aynig_ok(["run"]);
    let stale = words.split('`').find(|words| words.starts_with("git push ")).expect("a command");
    let arguments: Vec<&str> = stale.split(' ').skip(1).collect();
    assert!(!git_output(first, &arguments).status.success(), "{stale}");
    let shown = json(&first.aynig_ok(["flow", "show", &run.slug, "--json"]));
    scene.types(first, &format!("`{}`", shown["next"][0].as_str().expect("a command")), "git push ");
    assert_eq!(scene.field.at_hub(scene.ledger()), newest);
    resumes(first, run);
    // The other host now knows operations that the hub has not.
    let refused = second.aynig(["flow", "resume", &run.slug]);
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    second.aynig_ok(["flow", "resume", "--accept", "--from", "two", &run.slug]);
    assert_eq!(steps(second, run)[..3], ["one completed two", "two completed ask", "ask gate_approved STOP"]);
}

/// CONTRACT 16.11
#[test]
fn the_doctor_names_what_a_hub_lost_and_how_it_comes_back() {
    let scene = Scene::new();
    let host = &scene.field.hosts[0];
    let hub = scene.field.hub.beside("hub.git");
    let at_hub = |arguments: &[&str]| {
        host.git([&["-C", hub.to_str().expect("UTF-8"), "update-ref"], arguments].concat())
    };
    let before = scene.field.at_hub(scene.ledger());
    let lost = || -> Vec<String> {
        let words = out(&host.aynig(["doctor"]));
        words.lines().skip_while(|line| !line.contains("no more")).take(2).map(str::to_owned).collect()
    };
    assert!(lost().is_empty(), "{:?}", lost());
    at_hub(&["-d", scene.ledger()]);
    let [words, next] = &lost()[..] else { panic!("no finding") };
    assert!(
        words.ends_with(&format!("origin has the ledger of 1 run no more: {}", scene.run.slug)),
        "{words}"
    );
    sh(host, next.split_once("next: ").expect("a command").1);
    assert_eq!(scene.field.at_hub(scene.ledger()), before);
    assert!(lost().is_empty(), "{:?}", lost());
    // A run that another clone has deleted is not lost.
    at_hub(&[&format!("refs/aynig/archive/{}/@ledger", scene.run.id), &before]);
    at_hub(&["-d", scene.ledger()]);
    assert!(lost().is_empty(), "{:?}", lost());
}
