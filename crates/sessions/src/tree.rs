//! Arranges sessions as a tree, with forks below their originals.

use std::collections::HashMap;

use parallax_store::SessionEntry;

/// Returns sessions with forks below their originals, each with its depth. Siblings keep their
/// order.
pub fn tree(sessions: &[SessionEntry]) -> Vec<(usize, &SessionEntry)> {
    let known: HashMap<&str, usize> =
        sessions.iter().enumerate().map(|(index, entry)| (entry.id.as_str(), index)).collect();
    let parent = |at: usize| {
        let from = sessions.get(at)?.forked_from.as_deref()?;
        known.get(from).copied().filter(|parent| *parent != at)
    };
    let mut below: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    for index in (0..sessions.len()).rev() {
        match parent(index) {
            Some(parent) => below.entry(parent).or_default().push(index),
            None => open.push((0, index)),
        }
    }
    let mut rows = Vec::new();
    // Sessions that claim to be forks of each other have no root; they come last.
    let mut report = vec![false; sessions.len()];
    while let Some((depth, at)) = open.pop() {
        if let Some(report) = report.get_mut(at) {
            *report = true;
        }
        rows.extend(sessions.get(at).map(|entry| (depth, entry)));
        open.extend(below.remove(&at).into_iter().flatten().map(|child| (depth + 1, child)));
    }
    let left = sessions.iter().zip(report).filter(|(_, report)| !report);
    rows.extend(left.map(|(entry, _)| (0, entry)));
    rows
}
