//! From a call of the model to one that is checked and judged, or refused.

use std::sync::Arc;

use parallax_protocol::agent::COMPLETE_TASK;
use parallax_protocol::event::Level;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Decision, Origin, Query, Verdict};
use parallax_protocol::tool::{
    Effects, Outcome, Scope, Tool, ToolError, ToolErrorKind, ToolKind, ToolSpec,
};

use super::{add_note, crashed};
use crate::agents::AgentRole;
use crate::board::{Again, Asked, Board, Call, Finish, Prepared, Refused};
use crate::guarded::changes_files;
use crate::registry::WAIT_FOR_PREVIOUS;
use crate::session::Session;
impl Session {
    /// Checks the arguments on a blocking thread and asks the policy.
    pub(super) async fn prepare(
        &mut self,
        call: &Call,
        index: usize,
        again: Again,
    ) -> Result<Prepared, (ToolError, Box<Finish>, Option<Box<Refused>>)> {
        let unjudged = |kind: Option<ToolKind>| Box::new(Finish::unjudged(kind, call.name.clone()));
        if self.registry.get(&call.name).is_none()
            && let Some(looking) = self.registry.look_for(&call.name)
        {
            self.inbox.during(looking).await;
            if self.registry.refresh() {
                self.declared = None;
            }
        }
        if call.name != COMPLETE_TASK && self.role.as_ref().is_some_and(AgentRole::has_last_chance)
        {
            let message = format!("only `{COMPLETE_TASK}` can be called now");
            let error = ToolError::new(ToolErrorKind::ExecutionFailed, message);
            return Err((error, unjudged(None), again.refused));
        }
        let Some(tool) = self.registry.get(&call.name).cloned() else {
            let (judge, mode) = (self.judge.as_ref(), self.inbox.mode);
            let message = self.registry.not_found(&call.name, judge, mode, self.interactive);
            let error = ToolError::new(ToolErrorKind::ToolNotRegistered, message);
            return Err((error, unjudged(None), again.refused));
        };
        let kind = tool.spec().kind;
        // What a hook itself asks for in place of a call was not the model's choice.
        if call.replaces.is_none()
            && let Some(message) = self.left_out(&call.name)
        {
            let error = ToolError::new(ToolErrorKind::PolicyViolation, message);
            return Err((error, unjudged(Some(kind)), again.refused));
        }
        if let Some(error) = self.no_coordination(tool.spec()) {
            return Err((error, unjudged(Some(kind)), again.refused));
        }
        let Some(mut args) = again.arguments.clone().or_else(|| call.args.clone()) else {
            let error = ToolError::new(
                ToolErrorKind::InvalidToolParams,
                "the arguments must be a JSON object",
            );
            return Err((error, unjudged(Some(kind)), again.refused));
        };
        args.shift_remove(WAIT_FOR_PREVIOUS);
        let scope = Scope {
            call: call.id.clone(),
            name: call.name.clone(),
            mode: self.inbox.mode,
            interactive: self.interactive,
        };
        let preparing = {
            let (tool, args) = (Arc::clone(&tool), args.clone());
            let checkpoints = self.checkpoints.clone().filter(|_| kind == ToolKind::Execute);
            tokio::task::spawn_blocking(move || {
                let invocation = tool.prepare(args, &scope)?;
                let made = checkpoints.map(|checkpoints| checkpoints.made()).unwrap_or_default();
                Ok((invocation, made))
            })
        };
        let (invocation, made) = match self.inbox.during(preparing).await {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(error)) => return Err((error, unjudged(Some(kind)), again.refused)),
            Err(panicked) => {
                let error = crashed(&call.name, &panicked);
                return Err((error, unjudged(Some(kind)), again.refused));
            }
        };
        let mut effects = invocation.effects().clone();
        effects.permissions = effects.permissions.and(&again.permissions);
        let asked = Asked { args, workspace: (self.workspace)(), made };
        let query = self.query(tool.as_ref(), &effects, &asked);
        let mut verdict = self.judge.judge(&query);
        if verdict.decision != Decision::Allow
            && !verdict.each_time
            && let Some(wished) = self.wished_verdict(&query)
        {
            verdict = wished;
        }
        let mut doubt = tool.doubt().filter(|_| verdict.decision == Decision::Allow);
        if !self.runs_all()
            && let Some(doubt) = doubt.take()
        {
            verdict.decision = if self.interactive { Decision::Ask } else { Decision::Deny };
            verdict.why = doubt;
            verdict.each_time = true;
        }
        // Who took a change back thinks again, also where changes run unasked.
        if self.went_back
            && self.interactive
            && verdict.decision == Decision::Allow
            && changes_files(&effects)
        {
            verdict.decision = Decision::Ask;
            "you went back to before this change".clone_into(&mut verdict.why);
            verdict.each_time = true;
        }
        // Leave to run without the sandbox holds for the one call.
        let lasting =
            verdict.decision == Decision::Ask && !verdict.each_time && !effects.permissions.outside;
        let rules = match lasting && self.approvals.lasting {
            true => self.judge.drafts(&query, &effects.permissions),
            false => Vec::new(),
        };
        let no_rule = (verdict.decision == Decision::Ask && rules.is_empty()).then(|| {
            if !self.approvals.lasting {
                "`security.disableAlwaysAllow` forbids it".to_owned()
            } else if verdict.each_time {
                "this is asked about each time".to_owned()
            } else if effects.permissions.outside {
                "leave to run without the sandbox holds for one call".to_owned()
            } else {
                self.judge.why_no_drafts(&query, &effects.permissions)
            }
        });
        if let Some(doubt) = doubt {
            self.tell_doubt(tool.spec(), &doubt);
        }
        let title = invocation.title();
        Ok(Prepared {
            index,
            tool,
            invocation,
            effects,
            title,
            verdict,
            rules,
            no_rule,
            asked,
            outcomes: Vec::new(),
            decided: None,
            again,
        })
    }

    fn query<'a>(
        &'a self,
        tool: &'a dyn Tool,
        effects: &'a Effects,
        asked: &'a Asked,
    ) -> Query<'a> {
        let served = tool.served();
        let spec = tool.spec();
        Query {
            tool: &spec.name,
            aliases: &spec.aliases,
            kind: spec.kind,
            args: &asked.args,
            effects,
            mode: self.inbox.mode,
            interactive: self.interactive,
            workspace: &asked.workspace,
            trusted: self.trusted,
            made: &asked.made,
            taint: &self.taint,
            origin: Origin {
                agent: self.role.as_ref().map(|role| role.name.as_ref()),
                server: served.map(|served| served.server.as_str()),
                annotations: served.map(|served| &served.annotations),
            },
        }
    }

    /// Whether the call would run unasked by the rules as they are now.
    pub(crate) fn is_spared(&self, prepared: &Prepared) -> bool {
        let query = self.query(prepared.tool.as_ref(), &prepared.effects, &prepared.asked);
        self.judge.judge(&query).decision == Decision::Allow
    }

    /// Whether a person wanted everything to run unasked.
    fn runs_all(&self) -> bool {
        self.inbox.mode == ApprovalMode::Yolo && !self.yolo_by_rule
    }

    /// A call runs though its tool is not what it was: people hear of it, once for
    /// a tool.
    fn tell_doubt(&mut self, tool: &ToolSpec, doubt: &str) {
        if self.told_doubts.insert(tool.name.clone()) {
            let text = format!("{doubt}; it is called all the same, for the mode is `yolo`");
            self.inbox.notice(Level::Warning, text);
        }
    }

    /// A rule does not let the call through.
    pub(super) fn refuse(&mut self, board: &mut Board<'_>, mut prepared: Prepared) {
        let index = prepared.index;
        if let Some(refused) = prepared.again.refused.take() {
            let Refused { mut outcome, finish } = *refused;
            add_note(&mut outcome, &refusal_note(&prepared, &prepared.verdict.why));
            self.finish(board, index, outcome, finish);
            return;
        }
        let error = ToolError::new(
            ToolErrorKind::PolicyViolation,
            format!("Tool execution denied by policy. {}", said(&prepared.verdict)),
        );
        self.finish(board, index, Outcome::failure(error), Finish::rejected(&prepared, false));
    }
}

/// Why, and by which rule.
fn said(verdict: &Verdict) -> String {
    let Verdict { why, rule, .. } = verdict;
    if why.contains(rule.as_str()) { why.clone() } else { format!("{why} [rule: {rule}]") }
}

/// What the model reads when the sandbox had the last word.
pub(crate) fn refusal_note(prepared: &Prepared, why: &str) -> String {
    let wanted: &Permissions = &prepared.again.permissions;
    format!("[The sandbox refused this command: {}. {why}]", wanted.words().join(", "))
}
