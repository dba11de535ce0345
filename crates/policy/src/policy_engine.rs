//! The policy engine.

mod checks;
mod line;
mod tentative;

use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{
    ApprovalMode, Decision, PolicyDecision, PolicyEngine, Query, SuggestedRule,
};
use parallax_protocol::protected_links::FindLinkTargets;

use crate::build_guard::BuildFileGuard;
use crate::call::{CallQuery, ShellCall, tool_names};
use crate::line_checks;
use crate::paths::ProtectedPaths;
use crate::rule::{Rule, RuleSource};
use crate::rule_set::RuleSet;
use crate::sandbox_table::SandboxTable;
use crate::settings::PolicyOptions;
use crate::subject::Subject;
use crate::trace::{EvaluatedRule, Explanation, Trace, evaluated_rule};
use crate::{Problem, hint, job_credentials, suggested_rules};

pub(crate) use self::tentative::TentativeDecision;

const YOLO: &str = "`--approval-mode yolo`";
const WRITE_OUTSIDE: &str = "an `allow` rule with `permissions = { fileSystem = { write = \
    [\"PATH\"] } }` for the directory";

/// All rules of a session, in evaluation order.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) rules: RuleSet,
    build_file_guard: BuildFileGuard,
    plans: Option<PathBuf>,
    temporary: Vec<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    sandbox: Arc<SandboxTable>,
    links: Option<Arc<dyn FindLinkTargets>>,
    disable_always_allow: bool,
    /// Whether commands in substitutions are evaluated.
    substitutions: bool,
}

impl Policy {
    /// Creates a policy from the built-in rules and the rules that the options define.
    pub fn new(options: &PolicyOptions) -> Self {
        let temporary = if options.temporary_directories.is_empty() {
            vec![PathBuf::from("/tmp"), PathBuf::from("/var/tmp")]
        } else {
            options.temporary_directories.clone()
        };
        Self {
            rules: RuleSet::new(options),
            build_file_guard: options.build_file_guard,
            plans: options.plans_directory.clone(),
            temporary,
            home: options.home.clone(),
            sandbox: Arc::new(options.sandbox.clone()),
            links: options.links.clone(),
            disable_always_allow: options.disable_always_allow,
            substitutions: !options.free_substitutions,
        }
    }

    /// Returns warnings for display about entries of settings and rules that could not be converted
    /// to a rule as written.
    pub fn notices(&self) -> Vec<String> {
        self.rules.notices().to_vec()
    }

    /// Returns the problems found in the rule files.
    pub fn problems(&self) -> &[Problem] {
        self.rules.problems()
    }

    /// Returns what commands may do beyond the sandbox, by mode and by program.
    pub fn sandbox(&self) -> &SandboxTable {
        &self.sandbox
    }

    /// Returns all rules in evaluation order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.all().iter().map(AsRef::as_ref)
    }

    /// Returns all rules in evaluation order, for display and for machine-readable output.
    pub fn list(&self) -> Vec<EvaluatedRule> {
        self.rules().map(|rule| evaluated_rule(rule, None)).collect()
    }

    /// Evaluates the query and returns the decision together with the rules and checks that led to
    /// it.
    pub fn explain(&self, query: &Query<'_>) -> Explanation {
        let mut trace = Trace::enabled();
        let call = self.read(query);
        let policy_decision = self.policy_decision(&call, &mut trace);
        let trouble =
            call.shell.as_ref().and_then(ShellCall::unanalyzable_reason).map(str::to_owned);
        Explanation {
            policy_decision,
            rules: trace.rules,
            commands: trace.commands,
            unanalyzable_reason: trouble,
            checks: trace.checks,
        }
    }

    pub(crate) fn read<'a>(&'a self, query: &'a Query<'a>) -> CallQuery<'a> {
        let home = self.home.as_deref();
        let plans = self.plans.as_deref();
        let links = self.links.as_deref();
        CallQuery::read(query, plans, &self.temporary, home, links, self.substitutions)
    }

    /// Returns the rule that decides: the first that matches. A rule that may only tighten does not
    /// override a denial by a later rule.
    fn find(&self, call: &CallQuery<'_>, subject: Subject, trace: &mut Trace) -> Option<&Rule> {
        self.find_among(call, subject, trace, |_| true)
    }

    fn find_among(
        &self,
        call: &CallQuery<'_>,
        subject: Subject,
        trace: &mut Trace,
        counts: impl Fn(&Rule) -> bool,
    ) -> Option<&Rule> {
        let mut held: Option<&Rule> = None;
        let mut exempt: Option<&RuleSource> = None;
        for rule in self.rules().filter(|rule| counts(rule)) {
            let mismatch = rule.conditions.mismatch(call, subject, rule.decision);
            trace.record_rule(rule, mismatch);
            if mismatch.is_some() || exempt == Some(&rule.source) {
                continue;
            }
            if rule.exempts_only {
                exempt = Some(&rule.source);
                continue;
            }
            if rule.decision == Decision::Deny {
                return Some(rule);
            }
            if !rule.only_tightens() {
                return held.or(Some(rule));
            }
            held = held.or(Some(rule));
        }
        held
    }

    fn decision_of_rule(&self, call: &CallQuery<'_>, rule: Option<&Rule>) -> TentativeDecision {
        let tool = call.query.tool;
        let Some(rule) = rule else {
            let reason = format!("No rule covers `{tool}`, so it requires approval");
            return TentativeDecision::new(Decision::Ask, "no rule", reason);
        };
        let label = rule.label();
        let reason = match (rule.decision, &rule.deny_message) {
            (Decision::Deny, Some(message)) => message.clone(),
            (Decision::Deny, None) => format!("The rule {label} denies it"),
            (Decision::Ask, Some(message)) if rule.is_for_unlisted_commands() => message.clone(),
            (Decision::Ask, _) => match &rule.source {
                RuleSource::BuiltIn => {
                    format!("`{tool}` requires approval in `{}` mode", call.mode.as_str())
                }
                RuleSource::Setting(key) => {
                    format!("`{tool}` requires approval by the setting `{key}`")
                }
                RuleSource::File { path, .. } => {
                    format!("`{tool}` requires approval by a rule in `{}`", path.display())
                }
                RuleSource::Session => {
                    format!("`{tool}` requires approval by a rule of this session")
                }
            },
            (Decision::Allow, _) => format!("The rule {label} allows it"),
        };
        let mut decision = TentativeDecision::new(rule.decision, label, reason);
        if rule.decision == Decision::Ask {
            decision.needed_to_allow = match &rule.source {
                RuleSource::Setting(key) if rule.is_for_unlisted_commands() => {
                    Some(format!("an entry for the command in the setting `{key}`"))
                }
                RuleSource::Setting(key) => {
                    Some(format!("removing the entry in the setting `{key}`"))
                }
                RuleSource::File { .. } | RuleSource::Session => Some(
                    "a rule of higher priority that allows it, or removing that rule".to_owned(),
                ),
                RuleSource::BuiltIn => None,
            };
        }
        decision.grants = Some(rule.grants.clone());
        decision.may_redirect = rule.allow_redirection;
        decision.names_paths = rule.conditions.name_paths();
        decision
    }

    fn decide(&self, call: &CallQuery<'_>, trace: &mut Trace) -> TentativeDecision {
        if job_credentials::accesses_credentials(call.query) {
            return TentativeDecision::new(
                Decision::Deny,
                "job credentials (built in)",
                "Files named `gha-creds-*.json` contain the credentials of the CI job and are \
                 protected from tools",
            );
        }
        let mut decision = match &call.shell {
            Some(shell) => self.decide_line(call, shell, trace),
            None => {
                let rule = self.find(call, Subject::Whole, trace);
                trace.assign_to_call();
                let mut decision = self.decision_of_rule(call, rule);
                self.check_files(call, &mut decision, trace);
                decision
            }
        };
        self.check_permissions(call, &mut decision, trace);
        if decision.decision != Decision::Deny {
            self.check_safety(call, &mut decision, trace);
        }
        decision
    }

    /// Whether one of the paths is protected.
    fn includes_protected(&self, query: &Query<'_>, paths: &[PathBuf]) -> bool {
        let protected = ProtectedPaths::new(query.workspace, self.links.as_deref());
        paths.iter().any(|path| protected.contains(path))
    }

    fn policy_decision(&self, call: &CallQuery<'_>, trace: &mut Trace) -> PolicyDecision {
        let decision = self.decide(call, trace);
        let mut policy_decision =
            PolicyDecision::new(decision.decision, decision.rule, decision.reason);
        if decision.decision == Decision::Ask && !call.query.interactive {
            let needs = decision.needed_to_allow.unwrap_or_else(|| hint::needs(call));
            policy_decision.kind = Decision::Deny;
            policy_decision.reason = format!(
                "{}, but no user is present in this run; it requires {needs}",
                policy_decision.reason
            );
        }
        if policy_decision.kind != Decision::Deny {
            policy_decision.grants = decision.grants.unwrap_or_default();
        }
        policy_decision.always_ask = policy_decision.kind == Decision::Ask && decision.always_ask;
        if policy_decision.kind == Decision::Ask
            && let Some(shell) = &call.shell
        {
            policy_decision.parts = shell.line.parts();
            policy_decision.destructive = line_checks::destructive_commands(call, shell);
        }
        if policy_decision.kind == Decision::Ask {
            policy_decision.sensitive = self.sensitive_paths(call);
        }
        policy_decision
    }
}

impl PolicyEngine for Policy {
    fn evaluate(&self, query: &Query<'_>) -> PolicyDecision {
        self.policy_decision(&self.read(query), &mut Trace::default())
    }

    fn is_tool_denied(
        &self,
        tool: &str,
        aliases: &[String],
        mode: ApprovalMode,
        interactive: bool,
    ) -> bool {
        let names = tool_names(tool, aliases);
        let mut exempt: Option<&RuleSource> = None;
        for rule in self.rules() {
            let differs = rule.conditions.static_mismatch(&names, mode, interactive).is_some();
            if differs || exempt == Some(&rule.source) {
                continue;
            }
            if rule.exempts_only {
                exempt = Some(&rule.source);
                continue;
            }
            match (rule.decision, &rule.source) {
                // Only tools that the user removed are hidden; the model gets an explanation for
                // other denials when it calls the tool.
                (Decision::Deny, RuleSource::BuiltIn) => {}
                (Decision::Deny, _) if rule.conditions.ignore_arguments() => return true,
                (Decision::Deny, _) => {}
                (Decision::Ask, _) if rule.only_tightens() => {}
                (Decision::Allow | Decision::Ask, _) => return false,
            }
        }
        false
    }

    fn suggested_rules(&self, query: &Query<'_>, permissions: &Permissions) -> Vec<SuggestedRule> {
        if self.disable_always_allow {
            return Vec::new();
        }
        let call = self.read(query);
        let decision = self.decide(&call, &mut Trace::default());
        if decision.always_ask || decision.decision == Decision::Deny {
            return Vec::new();
        }
        // A permission to write to a protected path applies only once.
        let write = &permissions.file_system.write;
        if self.includes_protected(query, write) {
            return Vec::new();
        }
        // Offers only rules that actually allow the call.
        let mut suggested_rules = suggested_rules::suggested_rules(&call, permissions);
        suggested_rules.retain(|rule| {
            suggested_rules::session_rule(rule, self.home.as_deref()).is_ok_and(|rule| {
                let policy = Self { rules: self.rules.with(rule), ..self.clone() };
                policy.evaluate(query).kind == Decision::Allow
            })
        });
        suggested_rules
    }

    fn no_rule_reason(&self, query: &Query<'_>, permissions: &Permissions) -> String {
        if self.disable_always_allow {
            return "the setting `security.disableAlwaysAllow` disables saved rules".to_owned();
        }
        let write = &permissions.file_system.write;
        if self.includes_protected(query, write) {
            return "it writes a protected file".to_owned();
        }
        suggested_rules::no_rule_message(&self.read(query))
    }

    fn with_rule(&self, rule: &SuggestedRule) -> Result<Arc<dyn PolicyEngine>, String> {
        if self.disable_always_allow {
            return Err(
                "The setting `security.disableAlwaysAllow` disables session rules".to_owned()
            );
        }
        let rule = suggested_rules::session_rule(rule, self.home.as_deref())?;
        Ok(Arc::new(Self { rules: self.rules.with(rule), ..self.clone() }))
    }
}
