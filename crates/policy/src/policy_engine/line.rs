//! Decisions about command lines.

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Decision};

use super::{Policy, TentativeDecision, WRITE_OUTSIDE, YOLO};
use crate::call::{CallQuery, ShellCall};
use crate::conditions::{Commands, Conditions};
use crate::grants;
use crate::line_checks::{self, LineContext};
use crate::rule::{Rule, RuleSource};
use crate::subject::Subject;
use crate::trace::Trace;
use crate::transparent::is_transparent;

impl Policy {
    pub(super) fn decide_line(
        &self,
        call: &CallQuery<'_>,
        shell: &ShellCall<'_>,
        trace: &mut Trace,
    ) -> TentativeDecision {
        let whole = self.find(call, Subject::Whole, trace);
        trace.assign_to_call();
        let mut decision = match shell.unanalyzable_reason() {
            Some(reason) => self.decide_unanalyzable(call, reason, whole),
            None => self.decide_by_parts(call, shell, whole, trace),
        };
        let granted = decision.grants.clone().unwrap_or_default();
        let circumstances =
            LineContext { build_guard: self.build_file_guard, may_redirect: decision.may_redirect };
        for doubt in line_checks::approval_reasons(call, shell, &granted, &circumstances) {
            trace.check(doubt.name, &doubt.reason);
            let needs = match doubt.name {
                "build-file guard" => {
                    "`--approval-mode yolo` or the setting `security.buildFileGuard` = `off`"
                }
                "git in an untrusted folder" => {
                    "trusting the folder (`parallax trust add`, `--skip-trust`)"
                }
                // The sandbox blocks the write in yolo mode, too.
                "write outside the workspace" => WRITE_OUTSIDE,
                "redirection" if decision.decision == Decision::Allow => {
                    "`--approval-mode auto_edit` or a rule with `allowRedirection = true`"
                }
                _ => YOLO,
            };
            decision.raise_to_ask(doubt.name, &doubt.reason, doubt.always_ask, needs);
        }
        decision
    }

    /// Returns the decision for a line that cannot be analyzed.
    fn decide_unanalyzable(
        &self,
        call: &CallQuery<'_>,
        cause: &str,
        whole: Option<&Rule>,
    ) -> TentativeDecision {
        let mut decision = self.decision_of_rule(call, whole);
        let explicit_yolo = call.mode == ApprovalMode::Yolo;
        if decision.decision == Decision::Allow {
            let patterned = whole.is_some_and(|rule| rule.conditions.arguments.is_some());
            if explicit_yolo && patterned {
                decision = TentativeDecision::new(
                    Decision::Deny,
                    decision.rule,
                    format!(
                        "The rule allows a pattern of arguments, but the command line cannot be \
                         parsed ({cause}), so the rest of it cannot be checked"
                    ),
                );
            } else if !explicit_yolo {
                let reason = format!("The command line cannot be analyzed: {cause}");
                decision.raise_to_ask("unanalyzable command line", &reason, true, YOLO);
            }
        } else if decision.decision == Decision::Ask {
            decision.always_ask = true;
            decision.needed_to_allow.get_or_insert_with(|| YOLO.to_owned());
            decision.reason =
                format!("The command line cannot be analyzed: {cause}. {}", decision.reason);
        }
        decision
    }

    /// Combines the decisions about the commands of the line; the strictest wins.
    fn decide_by_parts(
        &self,
        call: &CallQuery<'_>,
        shell: &ShellCall<'_>,
        whole: Option<&Rule>,
        trace: &mut Trace,
    ) -> TentativeDecision {
        let mut strictest: Option<TentativeDecision> = None;
        let mut granted: Option<Permissions> = None;
        let mut may_redirect = true;
        for (index, command) in shell.line.commands.iter().enumerate() {
            if is_transparent(&shell.line, index) {
                continue;
            }
            let mut rule = self.find(call, Subject::Part(index), trace);
            if rule.is_some_and(Rule::is_for_unlisted_commands)
                && shell.is_safe(index)
                && self.lists_command(call, shell)
            {
                // A harmless command next to an allowed one is decided as if the list of allowed
                // commands did not exist.
                let quiet = &mut Trace::default();
                rule = self.find_among(call, Subject::Part(index), quiet, |rule| {
                    !rule.is_for_unlisted_commands()
                });
            }
            let mut decision = self.decision_of_rule(call, rule);
            let built_in = rule.is_none_or(|rule| rule.source == RuleSource::BuiltIn);
            if command.is_passed_on && (built_in || decision.decision == Decision::Allow) {
                continue;
            }
            let safe = decision.decision == Decision::Ask && built_in && shell.is_safe(index);
            if decision.decision == Decision::Ask
                && !safe
                && built_in
                && command.name() == Some("git")
                && let Some(file) = shell.controlling_git_config()
            {
                decision.reason = format!(
                    "{}: `{}` cannot be read or configures programs that git always runs",
                    decision.reason,
                    file.display()
                );
            }
            if safe {
                decision = TentativeDecision::new(
                    Decision::Allow,
                    "known-safe command (built in)",
                    match shell.redirections().next() {
                        None => "The command only reads inside the workspace",
                        Some(_) => {
                            "The command only reads, and redirections write only inside the \
                             workspace"
                        }
                    },
                );
            } else if let Some(grants) = &mut decision.grants {
                let exact = match rule.map(|rule| &rule.conditions.commands) {
                    Some(Commands::Prefixes(prefixes)) => {
                        prefixes.iter().any(|prefix| prefix.is_exactly(command))
                    }
                    _ => false,
                };
                grants.outside &= exact && shell.line.own_commands().count() == 1;
                let row = command.name().and_then(|name| self.sandbox.command(name));
                if let Some(row) = row {
                    *grants = std::mem::take(grants).union(&row.grants(self.home.as_deref()));
                }
                granted = Some(match granted.take() {
                    Some(granted) => grants::union(&granted, grants),
                    None => grants.clone(),
                });
            }
            may_redirect &= decision.may_redirect;
            trace.record_command(&command.source, decision.decision, &decision.rule);
            let stricter = strictest.as_ref().is_none_or(|before| {
                decision.decision > before.decision
                    // If both allow, a rule takes precedence over a heuristic because it can grant
                    // permissions.
                    || (decision.decision == before.decision
                        && before.grants.is_none()
                        && decision.grants.is_some())
            });
            if stricter {
                strictest = Some(decision);
            }
        }
        // A pattern may match the line as a whole. Matches within a single command were already
        // decided with that command, where a rule of higher priority may allow it.
        let patterned = whole.filter(|rule| {
            let Conditions { arguments, commands, .. } = &rule.conditions;
            rule.decision != Decision::Allow
                && (arguments.is_some()
                    || (matches!(commands, Commands::Pattern(_)) && commands.may_match(shell)))
        });
        let mut decision = strictest.unwrap_or_else(|| self.decision_of_rule(call, whole));
        if let Some(rule) = patterned.filter(|rule| rule.decision > decision.decision) {
            decision = self.decision_of_rule(call, Some(rule));
        }
        decision.grants = Some(granted.unwrap_or_default());
        decision.may_redirect = may_redirect;
        decision
    }

    /// Whether the list of allowed commands names a command of the line. In plan mode the list
    /// allows only the commands that it names.
    fn lists_command(&self, call: &CallQuery<'_>, shell: &ShellCall<'_>) -> bool {
        let names = |index| {
            self.rules().filter(|rule| rule.is_allowed_command()).any(|rule| {
                rule.conditions.mismatch(call, Subject::Part(index), rule.decision).is_none()
            })
        };
        let mut direct_commands =
            shell.line.commands.iter().enumerate().filter(|(_, it)| !it.is_passed_on);
        call.mode != ApprovalMode::Plan && direct_commands.any(|(index, _)| names(index))
    }
}
