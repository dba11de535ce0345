//! The projects that a change applies to, as options of subcommands.

use clap::{Args, ValueEnum};
use parallax_sdk::settings::SettingScope;

/// The projects that a change applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// All your projects
    User,
    /// This project
    #[value(alias = "project")]
    Workspace,
}

/// The `--scope` option, for all projects by default.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct UserScopeOption {
    /// Projects that the change applies to
    #[arg(long, value_enum, default_value_t = Scope::User)]
    scope: Scope,
}

/// The `--scope` option, for this project by default.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ProjectScopeOption {
    /// Projects that the change applies to
    #[arg(short = 's', long, value_enum, default_value_t = Scope::Workspace)]
    pub(crate) scope: Scope,
}

/// The `--scope` option of `enable`, which by default undoes every `disable`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OptionalScope {
    /// Projects that the change applies to [default: wherever it is disabled]
    #[arg(short = 's', long, value_enum)]
    pub(crate) scope: Option<Scope>,
}

impl From<UserScopeOption> for SettingScope {
    fn from(option: UserScopeOption) -> Self {
        option.scope.into()
    }
}

impl From<Scope> for SettingScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::User => Self::User,
            Scope::Workspace => Self::Workspace,
        }
    }
}
