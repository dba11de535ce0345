//! Changes to the options of a session: mode, model, and thinking level, by methods of the protocol
//! and by commands in a prompt.

use parallax_protocol::op::Op;
use parallax_protocol::policy::ApprovalMode;
use serde_json::{Value, json};

use super::EditorSession;
use crate::options::{DEFAULT_LEVEL, mode_id};
use crate::rpc::RpcError;

impl EditorSession {
    pub(super) fn config_json(&self, mode: ApprovalMode) -> Value {
        let level = self.thinking_level.as_deref();
        self.choices.config_json(mode, &self.updates.model, level)
    }

    pub(super) async fn set_thinking_level(&mut self, level: &str) -> Result<(), RpcError> {
        let levels = self.choices.thinking_levels(&self.updates.model);
        let level = match level {
            DEFAULT_LEVEL => None,
            level if levels.iter().any(|known| known == level) => Some(level.to_owned()),
            level => {
                let message = format!(
                    "the model `{}` has no thinking level `{level}`: use {}",
                    self.updates.model,
                    levels.join(", ")
                );
                return Err(RpcError::invalid_params(message));
            }
        };
        self.thinking_level.clone_from(&level);
        self.send(Op::SetThinkingLevel(level)).await;
        Ok(())
    }

    /// Changes the model. A thinking level that it lacks is reset.
    pub(super) async fn set_model(&mut self, model: String) -> Result<(), RpcError> {
        if model.trim().is_empty() {
            return Err(RpcError::invalid_params("the name of the model is empty"));
        }
        // Services and gateways may have models that are in no list, so other names are accepted.
        if let Some(error) = self.choices.model_error(&model) {
            let message = format!("{error}; `parallax models list` lists the models");
            return Err(RpcError::invalid_params(message));
        }
        self.send(Op::SetModel(model.clone())).await;
        self.updates.model = model;
        let levels = self.choices.thinking_levels(&self.updates.model);
        if self.thinking_level.take_if(|level| !levels.contains(level)).is_some() {
            self.send(Op::SetThinkingLevel(None)).await;
        }
        Ok(())
    }

    pub(super) async fn announce_options(&self) {
        let update = json!({"sessionUpdate": "config_option_update",
            "configOptions": self.config_json(self.updates.mode)});
        self.clients.update(&self.id, update).await;
    }

    pub(super) async fn set_mode(&mut self, id: &str) -> Result<ApprovalMode, RpcError> {
        let mode = self.choices.mode(id).ok_or_else(|| {
            RpcError::invalid_params(format!("the mode `{id}` is unknown or disabled"))
        })?;
        self.mode.request(mode);
        self.send(Op::SetMode(mode)).await;
        Ok(mode)
    }

    /// Runs `/model NAME`, `/mode NAME`, or `/mode`; `None` for another text.
    pub(super) async fn change_option(&mut self, text: &str) -> Option<Result<String, RpcError>> {
        let mut words = text.strip_prefix('/')?.split_whitespace();
        let option = words.next()?;
        if option == "mode" && self.open.commands.has_command("mode") {
            return None;
        }
        let value = words.next();
        if let ("mode", None) = (option, value) {
            return Some(Ok(format!("The approval mode is `{}`.", mode_id(self.updates.mode))));
        }
        let mut value = value?;
        if value == "set" {
            value = words.next()?;
        }
        let changed = match option {
            "model" if value != "why" => {
                let changed = self.set_model(value.to_owned()).await;
                if changed.is_ok() {
                    self.announce_options().await;
                }
                changed.map(|()| format!("The model is `{value}`."))
            }
            "mode" => {
                self.set_mode(value).await.map(|_| format!("The approval mode is `{value}`."))
            }
            _ => return None,
        };
        Some(changed)
    }
}
