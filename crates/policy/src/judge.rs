//! The decision itself.

use parallax_protocol::policy::{ApprovalMode, Decision, Judge, Query, Verdict};

use crate::call::{Call, Line, tool_names};
use crate::rule::{Rule, Source};
use crate::settings::{BuildFileGuard, PolicyOptions};
use crate::{defaults, guards, hint, settings, shell};

/// All rules of a session, in the order in which they are tried.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<Rule>,
    build_file_guard: BuildFileGuard,
    notices: Vec<String>,
}

/// A decision on its way through the checks.
struct Finding {
    decision: Decision,
    rule: String,
    why: String,
    /// What would allow it, when that is not the usual flag.
    needs: Option<String>,
}

impl Policy {
    /// The built-in rules and those that the options ask for.
    pub fn new(options: &PolicyOptions) -> Self {
        let (mut rules, notices) = settings::rules(options);
        rules.extend(defaults::rules(options.plans_directory.as_deref()));
        // Stable: of two rules of one rank, the one named first decides.
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        Self { rules, build_file_guard: options.build_file_guard, notices }
    }

    /// Entries of settings that could not become a rule as written, for people.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    fn find(&self, call: &Call<'_>) -> (Finding, Option<&Rule>) {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(call)) else {
            let finding = Finding {
                decision: Decision::Ask,
                rule: "no rule".to_owned(),
                why: format!("No rule is about `{}`, so it asks", call.query.tool),
                needs: None,
            };
            return (finding, None);
        };
        let label = rule.label();
        let why = match (rule.decision, &rule.deny_message) {
            (Decision::Deny, Some(message)) => message.clone(),
            (Decision::Deny, None) => format!("The rule {label} denies it"),
            (Decision::Ask, _) => {
                format!("`{}` asks in mode `{}`", call.query.tool, call.mode.as_str())
            }
            (Decision::Allow, _) => format!("The rule {label} allows it"),
        };
        let needs = match (rule.decision, &rule.source) {
            (Decision::Ask, Source::Setting(key)) => {
                Some(format!("the entry in the setting `{key}` removed"))
            }
            _ => None,
        };
        (Finding { decision: rule.decision, rule: label, why, needs }, Some(rule))
    }

    fn decide(&self, call: &Call<'_>) -> Finding {
        if guards::touches_job_credentials(call.query) {
            return Finding {
                decision: Decision::Deny,
                rule: "job credentials (built in)".to_owned(),
                why: "Files named `gha-creds-*.json` hold the credentials of the CI job and are closed to tools"
                    .to_owned(),
                needs: None,
            };
        }
        let (mut finding, rule) = self.find(call);
        check_command(call, rule, &mut finding);
        self.guard_build_files(call, &mut finding);
        finding
    }

    fn guard_build_files(&self, call: &Call<'_>, finding: &mut Finding) {
        let on = self.build_file_guard == BuildFileGuard::Ask && call.mode != ApprovalMode::Yolo;
        let path = call.query.effects.writes.iter().find(|path| guards::is_build_file(path));
        let Some(path) = path.filter(|_| on) else { return };
        if finding.decision == Decision::Ask && finding.needs.is_none() {
            finding.needs = Some(
                "`--approval-mode yolo`, or `--approval-mode auto_edit` with the setting \
                 `security.buildFileGuard` = `off`"
                    .to_owned(),
            );
        }
        if finding.decision == Decision::Allow {
            finding.decision = Decision::Ask;
            finding.rule = "build-file guard (`security.buildFileGuard`)".to_owned();
            finding.why =
                format!("`{}` decides what builds run, so a change of it asks", path.display());
            finding.needs = Some(
                "`--approval-mode yolo` or the setting `security.buildFileGuard` = `off`"
                    .to_owned(),
            );
        }
    }
}

/// What only the text of a command can tell. Rules that name commands have
/// already said all.
fn check_command(call: &Call<'_>, rule: Option<&Rule>, finding: &mut Finding) {
    let Some(line) = &call.shell else { return };
    if rule.is_some_and(|rule| !rule.commands.is_empty()) {
        return;
    }
    // An ask that the user wrote stays one.
    let built_in = rule.is_none_or(|rule| rule.source == Source::BuiltIn);
    match (finding.decision, doubt(call, line, rule)) {
        (Decision::Allow, Some((rule, why))) => {
            finding.decision = Decision::Ask;
            finding.rule = format!("{rule} (built in)");
            finding.why = why.to_owned();
            finding.needs = Some("`--approval-mode yolo`".to_owned());
        }
        (Decision::Ask, None) if built_in && line.is_safe() => {
            finding.decision = Decision::Allow;
            finding.rule = "known-safe command (built in)".to_owned();
            finding.why = "The command only reads inside the workspace".to_owned();
        }
        _ => {}
    }
}

/// Why a person should see the command although a rule allows commands.
fn doubt(
    call: &Call<'_>,
    line: &Line<'_>,
    rule: Option<&Rule>,
) -> Option<(&'static str, &'static str)> {
    if !call.query.trusted && shell::uses_git(line.loose()) {
        return Some((
            "git without trust",
            "This folder is not trusted, and git runs what its repository says",
        ));
    }
    if call.mode == ApprovalMode::Yolo {
        return None;
    }
    if line.runs_outside() {
        return Some(("outside the workspace", "The command would run outside the workspace"));
    }
    if shell::is_dangerous(line.loose()) {
        return Some((
            "dangerous command",
            "The command deletes by force, or runs programs through its options",
        ));
    }
    let may_redirect =
        call.mode == ApprovalMode::AutoEdit || rule.is_some_and(|rule| rule.allow_redirection);
    if !may_redirect && shell::redirects(&line.text) {
        return Some(("redirection", "The command reads or writes files by redirection"));
    }
    None
}

impl Judge for Policy {
    fn judge(&self, query: &Query<'_>) -> Verdict {
        let call = Call::read(query);
        let finding = self.decide(&call);
        if finding.decision != Decision::Ask || query.interactive {
            return Verdict { decision: finding.decision, rule: finding.rule, why: finding.why };
        }
        let needs = finding.needs.unwrap_or_else(|| hint::needs(&call));
        Verdict {
            decision: Decision::Deny,
            rule: finding.rule,
            why: format!("{}, and nobody can be asked in this run: it needs {needs}", finding.why),
        }
    }

    fn hides(&self, tool: &str, aliases: &[String], mode: ApprovalMode, interactive: bool) -> bool {
        let names = tool_names(tool, aliases);
        for rule in self.rules.iter().filter(|rule| rule.concerns(&names, mode, interactive)) {
            match (rule.decision, &rule.source) {
                // Only what the user took away is gone; all else is explained
                // to the model when it calls.
                (Decision::Deny, Source::Setting(_)) if rule.commands.is_empty() => return true,
                (Decision::Deny, _) => {}
                (Decision::Allow | Decision::Ask, _) => return false,
            }
        }
        false
    }
}
