//! Flags that take lists.

use std::path::PathBuf;

/// Returns the paths of a list flag.
pub(crate) fn paths(values: &[String]) -> Vec<PathBuf> {
    list(values).into_iter().map(PathBuf::from).collect()
}

/// Splits values at commas outside of brackets: `run_shell_command(a, b)` is one value.
pub(crate) fn list(values: &[String]) -> Vec<String> {
    let mut items = Vec::new();
    for value in values {
        let mut depth = 0usize;
        let parts = value.split(|char| {
            match char {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            char == ',' && depth == 0
        });
        items.extend(parts.map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned));
    }
    items
}
