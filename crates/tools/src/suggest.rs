//! Close names, for a path that leads nowhere.

use std::path::Path;

use parallax_files::{Access, Workspace};

/// Entries of the folder that are looked at.
const MAX_ENTRIES: usize = 5_000;

/// A sentence with names close to the missing one, or with what the nearest
/// folder is that does exist. Empty when there is nothing to say.
pub(crate) fn close_names(workspace: &Workspace, missing: &Path) -> String {
    let Some(wanted) = missing.file_name().map(|name| name.to_string_lossy().to_lowercase()) else {
        return String::new();
    };
    let Some(parent) = missing.parent() else { return String::new() };
    let listing = workspace
        .confine(parent, Access::Read)
        .ok()
        .and_then(|folder| folder.list(MAX_ENTRIES).ok());
    let Some(listing) = listing else {
        let nearest = parent.ancestors().skip(1).find(|folder| folder.is_dir());
        return match nearest.filter(|folder| workspace.confine(folder, Access::Read).is_ok()) {
            Some(folder) => {
                format!("\nThe nearest directory that exists is {}", folder.display())
            }
            None => String::new(),
        };
    };
    let mut close: Vec<(usize, String)> = listing
        .entries
        .iter()
        .filter_map(|entry| {
            let name = entry.name.to_string_lossy().into_owned();
            let distance = likeness(&wanted, &name.to_lowercase())?;
            workspace.confine(&parent.join(&entry.name), Access::Read).ok()?;
            Some((distance, name))
        })
        .collect();
    close.sort();
    close.truncate(3);
    if close.is_empty() {
        return String::new();
    }
    let names: Vec<String> = close.into_iter().map(|(_, name)| format!("`{name}`")).collect();
    format!("\nClose names in {}: {}", parent.display(), names.join(", "))
}

/// How far two lower-case names are apart; `None` when they are not alike.
fn likeness(wanted: &str, name: &str) -> Option<usize> {
    let (one, two): (Vec<char>, Vec<char>) = (wanted.chars().collect(), name.chars().collect());
    let limit = (one.len().max(two.len()) / 3).clamp(1, 6);
    if let Some(distance) = crate::replace::distance(&one, &two, limit) {
        return Some(distance);
    }
    let stem = |text: &str| text.split('.').next().unwrap_or_default().to_owned();
    let (one, two) = (stem(wanted), stem(name));
    (one.len() >= 3 && one == two).then_some(limit + 1)
}
