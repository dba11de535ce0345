//! Checks which approval modes are allowed.

use parallax_protocol::policy::ApprovalMode;

use crate::launch::Launch;

impl Launch {
    /// Returns whether plan mode is enabled (`general.plan.enabled`).
    pub fn has_plan_mode(&self) -> bool {
        self.config.settings.flag("general.plan.enabled")
    }

    /// Returns why yolo mode is not allowed here, if so.
    pub fn yolo_refusal(&self) -> Option<String> {
        if self.config.settings.disable_yolo_mode() {
            let why = "yolo mode is disabled by the setting `security.disableYoloMode`";
            return Some(why.to_owned());
        }
        (!self.config.trust.trusted)
            .then(|| "yolo mode requires a trusted folder; see /permissions".to_owned())
    }

    /// Returns why a session here cannot switch to a mode, if so.
    pub fn mode_refusal(&self, mode: ApprovalMode) -> Option<String> {
        match mode {
            ApprovalMode::Yolo => self.yolo_refusal(),
            ApprovalMode::Plan if !self.has_plan_mode() => {
                Some("plan mode is disabled by the setting `general.plan.enabled`".to_owned())
            }
            ApprovalMode::AutoEdit if !self.config.trust.trusted => {
                Some("auto_edit mode requires a trusted folder".to_owned())
            }
            _ => None,
        }
    }

    /// Returns whether the directory is the root or the home directory, where nothing should be
    /// changed without approval.
    pub fn is_everything(&self) -> bool {
        let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let here = real(&self.options.directory);
        let home = self.config.environment.get("HOME").map(std::path::Path::new);
        here.parent().is_none() || home.is_some_and(|home| real(home) == here)
    }

    /// Replaces yolo mode by the default mode if the directory is the root or the home directory,
    /// for sessions whose user can confirm actions. Returns whether it did.
    pub fn begin_careful(&mut self) -> bool {
        let careful = self.mode == ApprovalMode::Yolo && self.is_everything();
        if careful {
            self.mode = ApprovalMode::Default;
        }
        careful
    }

    /// Returns whether the working directory is the user's home directory.
    pub fn is_in_home(&self) -> bool {
        self.is_everything() && self.options.directory.parent().is_some()
    }
}
