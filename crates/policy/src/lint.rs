//! Checking of rule files without using them.

use std::path::Path;

use crate::problem::Problem;
use crate::rule_file::RuleFile;
use crate::rule_toml::{ParseOptions, read};
use crate::sandbox_table::SandboxTable;

/// Returns the problems of a rule file or a `sandbox.toml`, as its tier would report them.
pub fn lint(file: &RuleFile, home: Option<&Path>) -> Vec<Problem> {
    if file.path.file_name().is_some_and(|name| name == "sandbox.toml") {
        return SandboxTable::default().merge_file(file, home);
    }
    read(file, ParseOptions { home, workspace_may_allow: false }).problems
}
