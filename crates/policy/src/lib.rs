//! Decides whether a tool call is allowed, using rules, approval modes, guards, and the analysis of
//! shell commands. All functions are pure: the caller resolves paths and reads files.
//!
//! Not included: reading settings and rule files (`config`), requesting approval (the engine and
//! the front ends), and restricting running processes (`exec`).

mod arguments_text;
pub mod bash;
mod build_guard;
mod call;
mod checker;
mod command_prefix;
mod conditions;
mod defaults;
mod grants;
mod hint;
mod job_credentials;
mod line_checks;
mod lint;
mod names;
mod path_condition;
mod paths;
mod pattern;
mod permissive_scan;
mod policy_engine;
mod problem;
mod rule;
mod rule_file;
mod rule_set;
mod rule_toml;
mod sandbox_table;
mod secret_printers;
mod sensitive_names;
mod sensitive_trees;
mod settings;
mod subject;
mod suggested_rule_file;
mod suggested_rules;
mod taint;
mod toml_table;
mod tool_pattern;
mod trace;
mod transparent;

pub use build_guard::{BuildFileGuard, is_build_file};
pub use command_prefix::CommandPrefix;
pub use conditions::{CommandPattern, Commands, Conditions};
pub use line_checks::yolo_reasons;
pub use lint::lint;
pub use path_condition::{PathGlob, PathScope};
pub use policy_engine::Policy;
pub use problem::{Problem, ProblemKind, Severity};
pub use rule::{Priority, Rule, RuleSource};
pub use rule_file::{RuleFile, Tier};
pub use sandbox_table::{ModePermissions, ProgramPermissions, SandboxTable};
pub use settings::PolicyOptions;
pub use suggested_rule_file::{AddRuleError, add_to_file, suggested_rule_toml};
pub use tool_pattern::ToolPattern;
pub use trace::{EvaluatedRule, ExplainedCommand, Explanation, MatchedCheck};
