//! Messages about a HEAD without a good signature: they name the problem, and never lead a person to sign
//! another's commit.

use super::odd::with_header;
use super::*;

#[test]
fn a_signature_that_is_bad_may_be_so_for_several_reasons() {
    let (repo, known, _) = signing(&[("work", "next done")]);
    let head = signed(&repo, "task", &known);
    let told = |words: &[&str]| {
        let said = reason(&repo, "task");
        for word in [words, &["aynig.requireSigned", &head[..10]]].concat() {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(!said.contains("not what was signed"), "{said}");
        assert!(!said.contains("--amend"), "{said}");
    };
    repo.git([
        "config",
        "gpg.ssh.revocationFile",
        known.private.with_extension("pub").to_str().expect("text"),
    ]);
    told(&["is bad", "revoked", "git verify-commit"]);
    repo.git(["config", "--unset", "gpg.ssh.revocationFile"]);
    repo.git(["config", "gpg.ssh.program", "/nowhere/ssh-keygen"]);
    told(&["does not work", "git verify-commit"]);
    repo.git(["config", "--unset", "gpg.ssh.program"]);
    // A signature made for files (`-n file`), not for commits (`-n git`).
    let (object, text) = (repo.git(["cat-file", "commit", "main"]), repo.beside("text"));
    fs::write(&text, format!("{object}\n")).expect("a file");
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-Y", "sign", "-n", "file", "-f"]).arg(&known.private).arg(&text);
    assert!(keygen.output().expect("ssh-keygen runs").status.success());
    let signature = fs::read_to_string(text.with_extension("sig")).expect("a signature");
    let other = with_header(&repo, "other", &format!("gpgsig {}", signature.trim_end().replace('\n', "\n ")));
    let said = reason(&repo, "other");
    assert!(said.contains("another purpose") && said.contains(&other[..10]), "{said}");
}

#[test]
fn a_signature_that_git_makes_nothing_of_is_not_called_none() {
    let (repo, known, _) = signing(&[("work", "next done")]);
    let damaged = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n xx\n -----END PGP SIGNATURE-----";
    let head = with_header(&repo, "damaged", damaged);
    for program in ["gpg", "/nowhere/gpg"] {
        repo.git(["config", "gpg.program", program]);
        let said = reason(&repo, "damaged");
        assert!(said.contains(&head[..10]) && said.contains("git verify-commit"), "{program}: {said}");
        assert!(!said.contains("is not signed") && !said.contains("--amend"), "{program}: {said}");
    }
    signed(&repo, "task", &known);
    repo.git(["config", "--unset", "gpg.ssh.allowedSignersFile"]);
    let said = reason(&repo, "task");
    assert!(said.contains("gpg.ssh.allowedSignersFile") && !said.contains("is not signed"), "{said}");
}

#[test]
fn who_did_not_write_a_commit_is_not_told_to_sign_it() {
    let (repo, _, _) = signing(&[("work", "next done")]);
    let head = repo.ready("task", "work");
    let said = reason(&repo, "task");
    for words in [
        &format!("commit {} is not signed", &head[..10]),
        "if it is yours",
        "git commit --amend -S",
        "commit.gpgSign",
        &format!("git show {}", &head[..10]),
        "vouches for its files",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
