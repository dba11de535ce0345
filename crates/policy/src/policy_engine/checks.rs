//! Checks that tighten a decision: files, build files, permissions, safety checkers.

use std::path::{Path, PathBuf};

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Decision};
use parallax_protocol::protected_names;

use super::{Policy, TentativeDecision, YOLO};
use crate::build_guard::{BuildFileGuard, is_build_file};
use crate::call::{CallQuery, ShellCall};
use crate::checker::Checker;
use crate::trace::Trace;
use crate::{grants, paths, sensitive_names, sensitive_trees};

impl Policy {
    /// Checks the files of a call that does not run a command.
    pub(super) fn check_files(
        &self,
        call: &CallQuery<'_>,
        decision: &mut TentativeDecision,
        trace: &mut Trace,
    ) {
        let effects = call.query.effects;
        let roots = call.query.workspace;
        let yolo = call.mode == ApprovalMode::Yolo;
        let granted = decision.grants.clone().unwrap_or_default();
        let outside = effects.writes.iter().find(|path| {
            call.folders.are_outside(path)
                && !granted.file_system.write.iter().any(|directory| path.starts_with(directory))
        });
        if let Some(path) = outside
            && !decision.names_paths
            && (!yolo || call.query.interactive)
        {
            let reason = format!("It writes `{}`, outside the workspace", path.display());
            trace.check("write outside the workspace", &reason);
            decision.raise_to_ask("write outside the workspace", &reason, false, YOLO);
        }
        if yolo {
            return;
        }
        let protected = effects.writes.iter().find(|path| call.folders.protected.contains(path));
        let protected = protected.filter(|path| {
            // The plan directory may be inside a Parallax directory.
            !self.plans.as_deref().is_some_and(|plans: &Path| path.starts_with(plans))
        });
        let created = effects.creates.iter().find(|path| paths::is_agent_rules(path, roots));
        if let Some(path) = protected.or(created) {
            let reason = format!(
                "It changes `{}`, which can run programs or instruct agents",
                path.display()
            );
            trace.check("protected path", &reason);
            decision.raise_to_ask("protected path", &reason, true, YOLO);
        }
        if let Some(path) = effects.writes.iter().find(|path| paths::has_other_names(path)) {
            let reason =
                format!("`{}` has hard links, which would also be changed", path.display());
            trace.check("hard link", &reason);
            decision.raise_to_ask("hard link", &reason, true, YOLO);
        }
        self.guard_build_files(call, decision, trace);
    }

    fn guard_build_files(
        &self,
        call: &CallQuery<'_>,
        decision: &mut TentativeDecision,
        trace: &mut Trace,
    ) {
        if self.build_file_guard == BuildFileGuard::Off {
            return;
        }
        let Some(path) = call.query.effects.writes.iter().find(|path| is_build_file(path)) else {
            return;
        };
        let reason = format!("It changes `{}`, which controls what builds run", path.display());
        trace.check("build-file guard", &reason);
        if decision.decision == Decision::Ask {
            decision.needed_to_allow.get_or_insert_with(|| {
                "`--approval-mode yolo`, or `--approval-mode auto_edit` with the setting \
                 `security.buildFileGuard` = `off`"
                    .to_owned()
            });
        }
        if decision.decision == Decision::Allow {
            decision.raise_to_ask(
                "build-file guard",
                &reason,
                false,
                "`--approval-mode yolo` or the setting `security.buildFileGuard` = `off`",
            );
            decision.rule = "build-file guard (`security.buildFileGuard`)".to_owned();
        }
    }

    /// Checks the requested permissions beyond the sandbox that no rule grants.
    pub(super) fn check_permissions(
        &self,
        call: &CallQuery<'_>,
        decision: &mut TentativeDecision,
        trace: &mut Trace,
    ) {
        let requested_permissions = &call.query.effects.permissions;
        let row = self.sandbox.mode(call.mode);
        let readonly = row.readonly;
        let mut granted = decision.grants.take().unwrap_or_default().union(&row.grants());
        if call.mode == ApprovalMode::Yolo {
            // This mode grants writes to protected paths of the workspace and access to agents.
            // Everything else follows the sandbox table, which may be stricter.
            let mut free =
                Permissions { agents: requested_permissions.agents, ..Permissions::default() };
            if !readonly {
                // Hidden files, and files that define what is hidden, stay protected: a path that
                // is also requested for reading is a secret or contains one.
                let files = &requested_permissions.file_system;
                let is_free = |path: &&PathBuf| {
                    paths::is_inside(path, call.folders.workspace)
                        && !paths::defines_hidden_files(path)
                        && !files.read.iter().any(|read| read.starts_with(path))
                };
                free.file_system.write = files.write.iter().filter(is_free).cloned().collect();
            }
            granted = granted.union(&free);
        }
        let beyond =
            grants::missing_permissions(requested_permissions, &granted, &call.folders, readonly);
        if !beyond.is_empty() {
            let reason = format!(
                "It requires permissions beyond the sandbox: {}",
                beyond.descriptions().join(", ")
            );
            trace.check("beyond the sandbox", &reason);
            let needs = self.granting_options(&beyond, call.mode);
            let write = &beyond.file_system.write;
            let protected = write.iter().any(|path| call.folders.protected.contains(path));
            let always_ask = protected && call.mode != ApprovalMode::Yolo;
            decision.raise_to_ask("beyond the sandbox", &reason, always_ask, &needs);
        }
        decision.grants = Some(granted);
    }

    /// Returns what would grant these permissions, as the end of a sentence that begins with "it
    /// needs".
    fn granting_options(&self, beyond: &Permissions, mode: ApprovalMode) -> String {
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
        if beyond.difference(&self.sandbox.mode(ApprovalMode::Yolo).grants()).is_empty() {
            return "`--approval-mode yolo` or a rule whose `permissions` grant it".to_owned();
        }
        let key = if beyond.network {
            format!("security.sandbox.network.{}", mode.as_str())
        } else {
            "security.sandbox.hostLoopback".to_owned()
        };
        format!("a rule whose `permissions` grant it, or the setting `{key}` = `true`")
    }

    pub(super) fn check_safety(
        &self,
        call: &CallQuery<'_>,
        decision: &mut TentativeDecision,
        trace: &mut Trace,
    ) {
        let checkers = self.rules.checkers().iter().map(AsRef::as_ref);
        for checker in checkers.filter(|checker: &&Checker| checker.applies_to(call)) {
            let Some(objection) = checker.check(call) else { continue };
            let label = checker.label();
            trace.check(&label, &objection.reason);
            if objection.decision > decision.decision {
                decision.decision = objection.decision;
                decision.rule = label;
                decision.reason = objection.reason;
                decision.needed_to_allow = Some("removing that safety checker".to_owned());
            }
            if decision.decision == Decision::Deny {
                return;
            }
        }
    }

    /// Returns the sensitive paths that the call accesses, formatted for display.
    pub(super) fn sensitive_paths(&self, call: &CallQuery<'_>) -> Vec<String> {
        const MAX_COUNT: usize = 4;
        let effects = call.query.effects;
        let files = &effects.permissions.file_system;
        let all = effects.reads.iter().chain(effects.links.values()).chain(&effects.writes);
        // A file that does not exist yet may exist when a later part of the line runs.
        let home = self.home.as_deref();
        let shells = || call.shell.iter().flat_map(|shell| [shell, shell.expanded_line()]);
        let named: Vec<PathBuf> = shells().flat_map(ShellCall::named_paths).collect();
        let written: Vec<PathBuf> =
            shells().flat_map(|shell| sensitive_names::named_secrets(shell, home)).collect();
        let all = all.chain(&files.read).chain(&files.write).chain(&named);
        let copied: Vec<PathBuf> =
            shells().flat_map(|shell| sensitive_trees::copied_directories(shell, home)).collect();
        let all = all.filter(|path| protected_names::is_sensitive(path, home));
        let all = all.chain(&written).chain(&copied);
        let mut found: Vec<String> = Vec::new();
        for path in all {
            let relative = home.and_then(|home| path.strip_prefix(home).ok());
            let shown = match relative {
                Some(relative) if relative.as_os_str().is_empty() => "~".to_owned(),
                Some(relative) => format!("~/{}", relative.display()),
                None => {
                    let text = path.display().to_string();
                    let relative =
                        ["$HOME/", "${HOME}/"].iter().find_map(|it| text.strip_prefix(it));
                    relative.map(|relative| format!("~/{relative}")).unwrap_or(text)
                }
            };
            if found.len() < MAX_COUNT && !found.contains(&shown) {
                found.push(shown);
            }
        }
        for command in
            call.shell.iter().flat_map(|shell| sensitive_trees::secret_printing_commands(shell))
        {
            if found.len() < MAX_COUNT {
                found.push(format!("output of `{command}`"));
            }
        }
        found
    }
}
