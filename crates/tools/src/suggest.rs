//! Suggests similar names for a path that does not exist.

use std::path::Path;

use parallax_files::{Access, Workspace, printable};

use crate::edit_distance::edit_distance;

/// Maximum number of directory entries examined.
const MAX_ENTRIES: usize = 5_000;

/// Returns a sentence with names similar to the missing one, or with the contents of the nearest
/// existing directory. Empty if there is nothing to suggest.
pub(crate) fn similar_names(workspace: &Workspace, missing: &Path) -> String {
    let Some(missing_name) = missing.file_name().map(|name| name.to_string_lossy().to_lowercase())
    else {
        return String::new();
    };
    let Some(parent) = missing.parent() else { return String::new() };
    let listing = workspace
        .confine(parent, Access::Read)
        .ok()
        .and_then(|directory| directory.list(MAX_ENTRIES).ok());
    let Some(listing) = listing else {
        let nearest = parent.ancestors().skip(1).find(|directory| directory.is_dir());
        return match nearest.filter(|directory| workspace.confine(directory, Access::Read).is_ok())
        {
            Some(folder) => {
                format!("\nThe nearest existing directory is {}", folder.display())
            }
            None => String::new(),
        };
    };
    let mut close: Vec<(usize, String)> = listing
        .entries
        .iter()
        .filter_map(|entry| {
            let name = printable(&entry.name).into_owned();
            let distance = name_distance(&missing_name, &name.to_lowercase())?;
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
    format!("\nSimilar names in {}: {}", parent.display(), names.join(", "))
}

/// Returns the distance of two lowercase names; `None` if they are not similar.
fn name_distance(missing_name: &str, name: &str) -> Option<usize> {
    let longer = missing_name.chars().count().max(name.chars().count());
    let limit = (longer / 3).clamp(1, 6);
    if let Some(distance) = edit_distance(missing_name, name, limit) {
        return Some(distance);
    }
    let stem = |text: &str| text.split('.').next().unwrap_or_default().to_owned();
    let (one, two) = (stem(missing_name), stem(name));
    (one.len() >= 3 && one == two).then_some(limit + 1)
}
