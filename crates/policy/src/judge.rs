//! The policy engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Decision, Judge, Query, RuleDraft, Verdict};
use parallax_protocol::protected_names;

use crate::build_guard::{BuildFileGuard, is_build_file};
use crate::call::{QueriedCall, ShellCall, tool_names};
use crate::checker::Checker;
use crate::conditions::{Commands, Conditions, Subject};
use crate::line_checks::{self, LineContext};
use crate::rule::{Rule, RuleSource};
use crate::rule_set::RuleSet;
use crate::sandbox_table::SandboxTable;
use crate::settings::PolicyOptions;
use crate::trace::{Considered, Explanation, Trace, considered};
use crate::transparent::is_transparent;
use crate::{
    Problem, drafts, grants, hint, job_credentials, paths, sensitive_names, sensitive_trees,
};

/// All rules of a session, in evaluation order.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) rules: RuleSet,
    build_file_guard: BuildFileGuard,
    plans: Option<PathBuf>,
    temporary: Vec<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    sandbox: Arc<SandboxTable>,
    disable_always_allow: bool,
    /// Whether commands in substitutions are evaluated.
    substitutions: bool,
}

/// An intermediate decision that further checks can tighten.
pub(crate) struct TentativeDecision {
    pub(crate) decision: Decision,
    pub(crate) rule: String,
    pub(crate) why: String,
    /// What would allow the call, if not the usual flag.
    pub(crate) needs: Option<String>,
    /// Permissions that rules grant beyond the sandbox; `None` if no rule was consulted for them.
    pub(crate) grants: Option<Permissions>,
    pub(crate) each_time: bool,
    /// Whether a rule of the user or a built-in rule allowed redirections.
    may_redirect: bool,
    /// Whether the rule restricted the paths it applies to.
    names_paths: bool,
}

impl TentativeDecision {
    fn new(decision: Decision, rule: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            decision,
            rule: rule.into(),
            why: why.into(),
            needs: None,
            grants: None,
            each_time: false,
            may_redirect: false,
            names_paths: false,
        }
    }

    /// Turns allow into ask. Extends the reason if the finding already asks.
    fn raise(&mut self, rule: &str, why: &str, each_time: bool, needs: &str) {
        match self.decision {
            Decision::Allow => {
                self.decision = Decision::Ask;
                self.rule = format!("{rule} (built in)");
                why.clone_into(&mut self.why);
            }
            Decision::Ask if each_time && !self.each_time => {
                self.why = format!("{}. {why}", self.why);
            }
            Decision::Ask | Decision::Deny => {}
        }
        if self.decision == Decision::Ask {
            self.each_time |= each_time;
            self.needs.get_or_insert_with(|| needs.to_owned());
        }
    }
}

const YOLO: &str = "`--approval-mode yolo`";
const WRITE_OUTSIDE: &str = "a rule that allows it, with `permissions = { fileSystem = { write = \
    [\"PATH\"] } }` for the directory";

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
    pub fn list(&self) -> Vec<Considered> {
        self.rules().map(|rule| considered(rule, None)).collect()
    }

    /// Evaluates the query and returns the decision together with the rules and checks that led to
    /// it.
    pub fn explain(&self, query: &Query<'_>) -> Explanation {
        let mut trace = Trace::on();
        let call = self.read(query);
        let verdict = self.verdict(&call, &mut trace);
        let trouble = call.shell.as_ref().and_then(ShellCall::trouble).map(str::to_owned);
        Explanation {
            verdict,
            rules: trace.rules,
            commands: trace.commands,
            trouble,
            checks: trace.checks,
        }
    }

    pub(crate) fn read<'a>(&'a self, query: &'a Query<'a>) -> QueriedCall<'a> {
        let home = self.home.as_deref();
        let plans = self.plans.as_deref();
        QueriedCall::read(query, plans, &self.temporary, home, self.substitutions)
    }

    /// Returns the rule that decides: the first that matches. A rule that may only tighten does not
    /// override a denial by a later rule.
    fn find(&self, call: &QueriedCall<'_>, subject: Subject, trace: &mut Trace) -> Option<&Rule> {
        self.find_among(call, subject, trace, |_| true)
    }

    fn find_among(
        &self,
        call: &QueriedCall<'_>,
        subject: Subject,
        trace: &mut Trace,
        counts: impl Fn(&Rule) -> bool,
    ) -> Option<&Rule> {
        let mut held: Option<&Rule> = None;
        let mut exempt: Option<&RuleSource> = None;
        for rule in self.rules().filter(|rule| counts(rule)) {
            let mismatch = rule.conditions.mismatch(call, subject, rule.decision);
            trace.rule(rule, mismatch);
            if mismatch.is_some() || exempt == Some(&rule.source) {
                continue;
            }
            if rule.only_exempts {
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

    fn finding(&self, call: &QueriedCall<'_>, rule: Option<&Rule>) -> TentativeDecision {
        let tool = call.query.tool;
        let Some(rule) = rule else {
            let why = format!("No rule covers `{tool}`, so it requires approval");
            return TentativeDecision::new(Decision::Ask, "no rule", why);
        };
        let label = rule.label();
        let why = match (rule.decision, &rule.deny_message) {
            (Decision::Deny, Some(message)) => message.clone(),
            (Decision::Deny, None) => format!("The rule {label} denies it"),
            (Decision::Ask, Some(message)) if rule.is_beside_allowed_commands() => message.clone(),
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
        let mut finding = TentativeDecision::new(rule.decision, label, why);
        if rule.decision == Decision::Ask {
            finding.needs = match &rule.source {
                RuleSource::Setting(key) if rule.is_beside_allowed_commands() => {
                    Some(format!("an entry for the command in the setting `{key}`"))
                }
                RuleSource::Setting(key) => {
                    Some(format!("the entry in the setting `{key}` removed"))
                }
                RuleSource::File { .. } | RuleSource::Session => Some(
                    "a rule of higher priority that allows it, or that rule removed".to_owned(),
                ),
                RuleSource::BuiltIn => None,
            };
        }
        finding.grants = Some(rule.grants.clone());
        finding.may_redirect = rule.allow_redirection;
        finding.names_paths = rule.conditions.name_paths();
        finding
    }

    fn decide(&self, call: &QueriedCall<'_>, trace: &mut Trace) -> TentativeDecision {
        if job_credentials::touches(call.query) {
            return TentativeDecision::new(
                Decision::Deny,
                "job credentials (built in)",
                "Files named `gha-creds-*.json` contain the credentials of the CI job and are \
                 closed to tools",
            );
        }
        let mut finding = match &call.shell {
            Some(shell) => self.decide_line(call, shell, trace),
            None => {
                let rule = self.find(call, Subject::Whole, trace);
                trace.whole();
                let mut finding = self.finding(call, rule);
                self.check_files(call, &mut finding, trace);
                finding
            }
        };
        self.check_permissions(call, &mut finding, trace);
        if finding.decision != Decision::Deny {
            self.check_safety(call, &mut finding, trace);
        }
        finding
    }

    fn decide_line(
        &self,
        call: &QueriedCall<'_>,
        shell: &ShellCall<'_>,
        trace: &mut Trace,
    ) -> TentativeDecision {
        let whole = self.find(call, Subject::Whole, trace);
        trace.whole();
        let mut finding = match shell.trouble() {
            Some(trouble) => self.in_trouble(call, trouble, whole),
            None => self.by_parts(call, shell, whole, trace),
        };
        let granted = finding.grants.clone().unwrap_or_default();
        let circumstances =
            LineContext { build_guard: self.build_file_guard, may_redirect: finding.may_redirect };
        for doubt in line_checks::doubts(call, shell, &granted, &circumstances) {
            trace.check(doubt.name, &doubt.why);
            let needs = match doubt.name {
                "build-file guard" => {
                    "`--approval-mode yolo` or the setting `security.buildFileGuard` = `off`"
                }
                "git in an untrusted folder" => {
                    "the folder trusted (`parallax trust add`, `--skip-trust`)"
                }
                // The sandbox blocks the write in yolo mode, too.
                "write outside the workspace" => WRITE_OUTSIDE,
                "redirection" if finding.decision == Decision::Allow => {
                    "`--approval-mode auto_edit` or a rule with `allowRedirection = true`"
                }
                _ => YOLO,
            };
            finding.raise(doubt.name, &doubt.why, doubt.each_time, needs);
        }
        finding
    }

    /// Decides about a line that cannot be analyzed.
    fn in_trouble(
        &self,
        call: &QueriedCall<'_>,
        trouble: &str,
        whole: Option<&Rule>,
    ) -> TentativeDecision {
        let mut finding = self.finding(call, whole);
        let explicit_yolo = call.mode == ApprovalMode::Yolo;
        if finding.decision == Decision::Allow {
            let patterned = whole.is_some_and(|rule| rule.conditions.arguments.is_some());
            if explicit_yolo && patterned {
                finding = TentativeDecision::new(
                    Decision::Deny,
                    finding.rule,
                    format!(
                        "The rule allows a pattern of arguments, but the command line cannot be \
                         parsed ({trouble}), so the rest of it cannot be checked"
                    ),
                );
            } else if !explicit_yolo {
                let why = format!("The command line cannot be analyzed: {trouble}");
                finding.raise("unanalyzable command line", &why, true, YOLO);
            }
        } else if finding.decision == Decision::Ask {
            finding.each_time = true;
            finding.needs.get_or_insert_with(|| YOLO.to_owned());
            finding.why =
                format!("{}. The command line cannot be analyzed: {trouble}", finding.why);
        }
        finding
    }

    /// Combines the decisions about the commands of the line; the strictest wins.
    fn by_parts(
        &self,
        call: &QueriedCall<'_>,
        shell: &ShellCall<'_>,
        whole: Option<&Rule>,
        trace: &mut Trace,
    ) -> TentativeDecision {
        let mut strictest: Option<TentativeDecision> = None;
        let mut given: Option<Permissions> = None;
        let mut may_redirect = true;
        for (index, command) in shell.line.commands.iter().enumerate() {
            if is_transparent(&shell.line, index) {
                continue;
            }
            let mut rule = self.find(call, Subject::Part(index), trace);
            if rule.is_some_and(Rule::is_beside_allowed_commands)
                && shell.is_safe(index)
                && self.names_a_command(call, shell)
            {
                // A harmless command next to an allowed one is decided as if the list of allowed
                // commands did not exist.
                let quiet = &mut Trace::default();
                rule = self.find_among(call, Subject::Part(index), quiet, |rule| {
                    !rule.is_beside_allowed_commands()
                });
            }
            let mut finding = self.finding(call, rule);
            let built_in = rule.is_none_or(|rule| rule.source == RuleSource::BuiltIn);
            if command.handed_on && (built_in || finding.decision == Decision::Allow) {
                continue;
            }
            let safe = finding.decision == Decision::Ask && built_in && shell.is_safe(index);
            if finding.decision == Decision::Ask
                && !safe
                && built_in
                && command.name() == Some("git")
                && let Some(file) = shell.leads_git()
            {
                finding.why = format!(
                    "{}: `{}` cannot be read or configures programs that git always runs",
                    finding.why,
                    file.display()
                );
            }
            if safe {
                finding = TentativeDecision::new(
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
            } else if let Some(grants) = &mut finding.grants {
                let exact = match rule.map(|rule| &rule.conditions.commands) {
                    Some(Commands::Prefixes(prefixes)) => {
                        prefixes.iter().any(|prefix| prefix.is_all_of(command))
                    }
                    _ => false,
                };
                grants.outside &= exact && shell.line.own_commands().count() == 1;
                let row = command.name().and_then(|name| self.sandbox.command(name));
                if let Some(row) = row {
                    *grants = std::mem::take(grants).and(&row.grants(self.home.as_deref()));
                }
                given = Some(match given.take() {
                    Some(given) => grants::both(&given, grants),
                    None => grants.clone(),
                });
            }
            may_redirect &= finding.may_redirect;
            trace.command(&command.source, finding.decision, &finding.rule);
            let stricter = strictest.as_ref().is_none_or(|before| {
                finding.decision > before.decision
                    // If both allow, a rule takes precedence over a heuristic because it can grant
                    // permissions.
                    || (finding.decision == before.decision
                        && before.grants.is_none()
                        && finding.grants.is_some())
            });
            if stricter {
                strictest = Some(finding);
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
        let mut finding = strictest.unwrap_or_else(|| self.finding(call, whole));
        if let Some(rule) = patterned.filter(|rule| rule.decision > finding.decision) {
            finding = self.finding(call, Some(rule));
        }
        finding.grants = Some(given.unwrap_or_default());
        finding.may_redirect = may_redirect;
        finding
    }

    /// Whether the list of allowed commands names a command of the line. In plan mode the list
    /// allows only the commands that it names.
    fn names_a_command(&self, call: &QueriedCall<'_>, shell: &ShellCall<'_>) -> bool {
        let names = |index| {
            self.rules().filter(|rule| rule.is_allowed_command()).any(|rule| {
                rule.conditions.mismatch(call, Subject::Part(index), rule.decision).is_none()
            })
        };
        let mut own = shell.line.commands.iter().enumerate().filter(|(_, it)| !it.handed_on);
        call.mode != ApprovalMode::Plan && own.any(|(index, _)| names(index))
    }

    /// Checks the files of a call that does not run a command.
    fn check_files(
        &self,
        call: &QueriedCall<'_>,
        finding: &mut TentativeDecision,
        trace: &mut Trace,
    ) {
        let effects = call.query.effects;
        let roots = call.query.workspace;
        let yolo = call.mode == ApprovalMode::Yolo;
        let granted = finding.grants.clone().unwrap_or_default();
        let outside = effects.writes.iter().find(|path| {
            call.folders.are_left_by(path)
                && !granted.file_system.write.iter().any(|folder| path.starts_with(folder))
        });
        if let Some(path) = outside
            && !finding.names_paths
            && (!yolo || call.query.interactive)
        {
            let why = format!("It writes `{}`, outside the workspace", path.display());
            trace.check("write outside the workspace", &why);
            finding.raise("write outside the workspace", &why, false, YOLO);
        }
        if yolo {
            return;
        }
        let protected = effects.writes.iter().find(|path| paths::is_protected(path, roots));
        let protected = protected.filter(|path| {
            // The plan directory may be inside a directory of Parallax.
            !self.plans.as_deref().is_some_and(|plans: &Path| path.starts_with(plans))
        });
        let created = effects.creates.iter().find(|path| paths::is_agent_rules(path, roots));
        if let Some(path) = protected.or(created) {
            let why = format!(
                "It changes `{}`, which can run programs or instruct agents",
                path.display()
            );
            trace.check("protected path", &why);
            finding.raise("protected path", &why, true, YOLO);
        }
        if let Some(path) = effects.writes.iter().find(|path| paths::has_other_names(path)) {
            let why = format!("`{}` has hard links, which would be changed, too", path.display());
            trace.check("hard link", &why);
            finding.raise("hard link", &why, true, YOLO);
        }
        self.guard_build_files(call, finding, trace);
    }

    fn guard_build_files(
        &self,
        call: &QueriedCall<'_>,
        finding: &mut TentativeDecision,
        trace: &mut Trace,
    ) {
        if self.build_file_guard == BuildFileGuard::Off {
            return;
        }
        let Some(path) = call.query.effects.writes.iter().find(|path| is_build_file(path)) else {
            return;
        };
        let why = format!("It changes `{}`, which controls what builds run", path.display());
        trace.check("build-file guard", &why);
        if finding.decision == Decision::Ask {
            finding.needs.get_or_insert_with(|| {
                "`--approval-mode yolo`, or `--approval-mode auto_edit` with the setting \
                 `security.buildFileGuard` = `off`"
                    .to_owned()
            });
        }
        if finding.decision == Decision::Allow {
            finding.raise(
                "build-file guard",
                &why,
                false,
                "`--approval-mode yolo` or the setting `security.buildFileGuard` = `off`",
            );
            finding.rule = "build-file guard (`security.buildFileGuard`)".to_owned();
        }
    }

    /// Checks the requested permissions beyond the sandbox that no rule grants.
    fn check_permissions(
        &self,
        call: &QueriedCall<'_>,
        finding: &mut TentativeDecision,
        trace: &mut Trace,
    ) {
        let wanted = &call.query.effects.permissions;
        let row = self.sandbox.mode(call.mode);
        let readonly = row.readonly;
        let mut granted = finding.grants.take().unwrap_or_default().and(&row.grants());
        if call.mode == ApprovalMode::Yolo {
            // This mode grants writes to protected paths of the workspace and access to agents.
            // Everything else follows the sandbox table, which may be stricter.
            let mut free = Permissions { agents: wanted.agents, ..Permissions::default() };
            if !readonly {
                // Hidden files, and files that define what is hidden, stay protected: a path that
                // is also requested for reading is a secret or contains one.
                let files = &wanted.file_system;
                let is_free = |path: &&PathBuf| {
                    paths::inside(path, call.folders.workspace)
                        && !paths::says_what_is_hidden(path)
                        && !files.read.iter().any(|read| read.starts_with(path))
                };
                free.file_system.write = files.write.iter().filter(is_free).cloned().collect();
            }
            granted = granted.and(&free);
        }
        let beyond = grants::beyond(wanted, &granted, &call.folders, readonly);
        if !beyond.is_empty() {
            let why = format!(
                "It requires permissions beyond the sandbox: {}",
                beyond.words().join(", ")
            );
            trace.check("beyond the sandbox", &why);
            let needs = self.what_gives(&beyond, call.mode);
            let write = &beyond.file_system.write;
            let protected =
                write.iter().any(|path| paths::is_protected(path, call.query.workspace));
            let each_time = protected && call.mode != ApprovalMode::Yolo;
            finding.raise("beyond the sandbox", &why, each_time, &needs);
        }
        finding.grants = Some(granted);
    }

    /// Returns what would grant these permissions, as the end of a sentence that begins with "it
    /// needs".
    fn what_gives(&self, beyond: &Permissions, mode: ApprovalMode) -> String {
        if beyond.outside {
            return "a rule with `permissions = { outside = true }` and the exact command as \
                    `commandPrefix`"
                .to_owned();
        }
        if !beyond.file_system.is_empty() {
            return "a rule whose `permissions` grant it, or the settings \
                `security.sandbox.readable` and `security.sandbox.writable`"
                .to_owned();
        }
        if beyond.beyond(&self.sandbox.mode(ApprovalMode::Yolo).grants()).is_empty() {
            return "`--approval-mode yolo` or a rule whose `permissions` grant it".to_owned();
        }
        let key = if beyond.network {
            format!("security.sandbox.network.{}", mode.as_str())
        } else {
            "security.sandbox.hostLoopback".to_owned()
        };
        format!("a rule whose `permissions` grant it, or the setting `{key}` = `true`")
    }

    fn check_safety(
        &self,
        call: &QueriedCall<'_>,
        finding: &mut TentativeDecision,
        trace: &mut Trace,
    ) {
        let checkers = self.rules.checkers().iter().map(AsRef::as_ref);
        for checker in checkers.filter(|checker: &&Checker| checker.concerns(call)) {
            let Some(objection) = checker.check(call) else { continue };
            let label = checker.label();
            trace.check(&label, &objection.why);
            if objection.decision > finding.decision {
                finding.decision = objection.decision;
                finding.rule = label;
                finding.why = objection.why;
                finding.needs = Some("that safety checker removed".to_owned());
            }
            if finding.decision == Decision::Deny {
                return;
            }
        }
    }

    /// Returns the sensitive paths that the call accesses, formatted for display.
    fn sensitive(&self, call: &QueriedCall<'_>) -> Vec<String> {
        const MOST: usize = 4;
        let effects = call.query.effects;
        let files = &effects.permissions.file_system;
        let all = effects.reads.iter().chain(effects.links.values()).chain(&effects.writes);
        // A file that does not exist yet may exist when a later part of the line runs.
        let home = self.home.as_deref();
        let shells = || call.shell.iter().flat_map(|shell| [shell, shell.expanded()]);
        let named: Vec<PathBuf> = shells().flat_map(ShellCall::named).collect();
        let written: Vec<PathBuf> =
            shells().flat_map(|shell| sensitive_names::named(shell, home)).collect();
        let all = all.chain(&files.read).chain(&files.write).chain(&named);
        let copied: Vec<PathBuf> =
            shells().flat_map(|shell| sensitive_trees::copied(shell, home)).collect();
        let all = all.filter(|path| protected_names::is_sensitive(path, home));
        let all = all.chain(&written).chain(&copied);
        let mut found: Vec<String> = Vec::new();
        for path in all {
            let below = home.and_then(|home| path.strip_prefix(home).ok());
            let shown = match below {
                Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
                Some(below) => format!("~/{}", below.display()),
                None => path.display().to_string(),
            };
            if found.len() < MOST && !found.contains(&shown) {
                found.push(shown);
            }
        }
        for command in call.shell.iter().flat_map(|shell| sensitive_trees::printed(shell)) {
            if found.len() < MOST {
                found.push(format!("output of `{command}`"));
            }
        }
        found
    }

    fn verdict(&self, call: &QueriedCall<'_>, trace: &mut Trace) -> Verdict {
        let finding = self.decide(call, trace);
        let mut verdict = Verdict::new(finding.decision, finding.rule, finding.why);
        if finding.decision == Decision::Ask && !call.query.interactive {
            let needs = finding.needs.unwrap_or_else(|| hint::needs(call));
            verdict.decision = Decision::Deny;
            verdict.why =
                format!("{}, but no user is present in this run; it requires {needs}", verdict.why);
        }
        if verdict.decision != Decision::Deny {
            verdict.grants = finding.grants.unwrap_or_default();
        }
        verdict.each_time = verdict.decision == Decision::Ask && finding.each_time;
        if verdict.decision == Decision::Ask
            && let Some(shell) = &call.shell
        {
            verdict.parts = shell.line.parts();
            verdict.destructive = line_checks::destroyed(call, shell);
        }
        if verdict.decision == Decision::Ask {
            verdict.sensitive = self.sensitive(call);
        }
        verdict
    }
}

impl Judge for Policy {
    fn judge(&self, query: &Query<'_>) -> Verdict {
        self.verdict(&self.read(query), &mut Trace::default())
    }

    fn hides(&self, tool: &str, aliases: &[String], mode: ApprovalMode, interactive: bool) -> bool {
        let names = tool_names(tool, aliases);
        let mut exempt: Option<&RuleSource> = None;
        for rule in self.rules() {
            let differs = rule.conditions.concern(&names, mode, interactive).is_some();
            if differs || exempt == Some(&rule.source) {
                continue;
            }
            if rule.only_exempts {
                exempt = Some(&rule.source);
                continue;
            }
            match (rule.decision, &rule.source) {
                // Only tools that the user removed are hidden; the model gets an explanation for
                // other denials when it calls the tool.
                (Decision::Deny, RuleSource::BuiltIn) => {}
                (Decision::Deny, _) if rule.conditions.are_about_whole_tools() => return true,
                (Decision::Deny, _) => {}
                (Decision::Ask, _) if rule.only_tightens() => {}
                (Decision::Allow | Decision::Ask, _) => return false,
            }
        }
        false
    }

    fn drafts(&self, query: &Query<'_>, permissions: &Permissions) -> Vec<RuleDraft> {
        if self.disable_always_allow {
            return Vec::new();
        }
        let call = self.read(query);
        let finding = self.decide(&call, &mut Trace::default());
        if finding.each_time || finding.decision == Decision::Deny {
            return Vec::new();
        }
        // A permission to write to a protected path applies only once.
        let write = &permissions.file_system.write;
        if write.iter().any(|path| paths::is_protected(path, query.workspace)) {
            return Vec::new();
        }
        // Offers only rules that actually allow the call.
        let mut drafts = drafts::drafts(&call, permissions);
        drafts.retain(|draft| {
            drafts::session_rule(draft, self.home.as_deref()).is_ok_and(|rule| {
                let policy = Self { rules: self.rules.with(rule), ..self.clone() };
                policy.judge(query).decision == Decision::Allow
            })
        });
        drafts
    }

    fn why_no_drafts(&self, query: &Query<'_>, permissions: &Permissions) -> String {
        if self.disable_always_allow {
            return "the setting `security.disableAlwaysAllow` disables saved rules".to_owned();
        }
        let write = &permissions.file_system.write;
        if write.iter().any(|path| paths::is_protected(path, query.workspace)) {
            return "it writes a protected file".to_owned();
        }
        drafts::why_none(&self.read(query))
    }

    fn with_rule(&self, draft: &RuleDraft) -> Result<Arc<dyn Judge>, String> {
        if self.disable_always_allow {
            return Err(
                "The setting `security.disableAlwaysAllow` disables session rules".to_owned()
            );
        }
        let rule = drafts::session_rule(draft, self.home.as_deref())?;
        Ok(Arc::new(Self { rules: self.rules.with(rule), ..self.clone() }))
    }
}
