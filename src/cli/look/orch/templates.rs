//! `aynig orch template`: texts of roles.

use serde_json::json;

use aynig::git::Repo;
use aynig::ops::error::Error;
use aynig::ops::flow::base;
use aynig::ops::templates::{self, Source, Template};
use aynig::words::shell_quote;

use crate::cli::args::{OrchTemplate, OrchTemplateVerb};
use crate::cli::exit::Exit;
use crate::cli::ui::{self, FAINT, STRONG, styled};

pub(super) fn run(repo: &Repo, arguments: &OrchTemplate, json: bool) -> Result<Exit, Error> {
    match &arguments.verb {
        OrchTemplateVerb::List(of) => list(repo, &of.base, json),
        OrchTemplateVerb::Show(one) => show(repo, &one.role, &one.of.base, json),
    }
}

fn list(repo: &Repo, named: &str, json: bool) -> Result<Exit, Error> {
    let all = templates::list(repo, base(repo, named)?.1)?;
    if json {
        let rows: Vec<_> =
            all.iter().map(|one| json!({ "role": one.role, "source": one.source.word() })).collect();
        ui::answer_json(&json!({ "templates": rows }));
        return Ok(Exit::Done);
    }
    for Template { role, source, .. } in &all {
        let place = match source {
            Source::Base => templates::path(role),
            Source::Shipped => "comes with aynig".to_owned(),
        };
        ui::answer(&format!("{}  {}", styled(STRONG, format!("{role:13}")), styled(FAINT, place)));
    }
    Ok(Exit::Done)
}

fn show(repo: &Repo, role: &str, named: &str, json: bool) -> Result<Exit, Error> {
    let found = templates::find(repo, base(repo, named)?.1, role)?;
    let Some(Template { role, text, source }) = found else {
        let message = format!("role {role} has no text in {named}, and none comes with aynig");
        return Err(Error::failed(message)
            .hint(format!("write {} and commit it", templates::path(role)))
            .hint(format!(
                "`aynig orch template list --base {}` lists those there are",
                shell_quote(named)
            )));
    };
    if json {
        ui::answer_json(&json!({ "role": role, "source": source.word(), "text": text }));
        return Ok(Exit::Done);
    }
    for line in text.lines() {
        ui::answer(&ui::sanitize(line));
    }
    Ok(Exit::Done)
}
