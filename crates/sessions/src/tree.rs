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
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut pending: Vec<(usize, usize)> = Vec::new();
    for index in (0..sessions.len()).rev() {
        match parent(index) {
            Some(parent) => children.entry(parent).or_default().push(index),
            None => pending.push((0, index)),
        }
    }
    let mut rows = Vec::new();
    // Sessions that claim to be forks of each other have no root; they come last.
    let mut visited = vec![false; sessions.len()];
    while let Some((depth, at)) = pending.pop() {
        if let Some(is_visited) = visited.get_mut(at) {
            *is_visited = true;
        }
        rows.extend(sessions.get(at).map(|entry| (depth, entry)));
        pending.extend(children.remove(&at).into_iter().flatten().map(|child| (depth + 1, child)));
    }
    let left = sessions.iter().zip(visited).filter(|(_, is_visited)| !is_visited);
    rows.extend(left.map(|(entry, _)| (0, entry)));
    rows
}
