//! Reads a paginated list from an untrusted server, which may never end it.

use std::collections::HashSet;

use serde_json::Value;

/// Maximum number of pages.
const MAX_PAGES: usize = 100;
/// Maximum number of entries.
const MAX_ENTRIES: usize = 2_000;

/// The part of a list that was read.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PagedList {
    /// The entries.
    pub(crate) entries: Vec<Value>,
    /// Why reading stopped before the end of the list.
    pub(crate) stop_reason: Option<&'static str>,
}

/// Reads a list page by page. `ask` takes the cursor and returns the result, whose field `key`
/// contains the entries.
pub(crate) async fn read<E, F>(
    key: &str,
    mut ask: impl FnMut(Option<String>) -> F,
) -> Result<PagedList, E>
where
    F: Future<Output = Result<Value, E>>,
{
    let mut pages = PagedList::default();
    let (mut seen, mut known) = (HashSet::new(), HashSet::new());
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let mut result = ask(cursor.take()).await?;
        if let Some(Value::Array(entries)) = result.get_mut(key).map(Value::take) {
            // A repeated page adds no entries.
            let entries: Vec<Value> =
                entries.into_iter().filter(|entry| known.insert(entry.to_string())).collect();
            let room = MAX_ENTRIES - pages.entries.len();
            if entries.len() > room {
                pages.entries.extend(entries.into_iter().take(room));
                pages.stop_reason = Some("it has more than 2,000 entries");
                return Ok(pages);
            }
            pages.entries.extend(entries);
        }
        match result.get("nextCursor").and_then(Value::as_str) {
            None | Some("") => return Ok(pages),
            Some(next) if !seen.insert(next.to_owned()) => {
                pages.stop_reason = Some("the server repeats a page");
                return Ok(pages);
            }
            Some(next) => cursor = Some(next.to_owned()),
        }
    }
    pages.stop_reason = Some("it has more than 100 pages");
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;

    async fn pages(answer: impl Fn(Option<String>) -> Value) -> PagedList {
        read::<Infallible, _>("tools", |cursor| std::future::ready(Ok(answer(cursor))))
            .await
            .expect("no failure")
    }

    #[tokio::test]
    async fn pages_are_read_up_to_the_limit() {
        let two = pages(|cursor| match cursor.as_deref() {
            None => json!({"tools": [1], "nextCursor": "b"}),
            _ => json!({"tools": [2]}),
        });
        assert_eq!(two.await, PagedList { entries: vec![json!(1), json!(2)], stop_reason: None });
        let repeating = pages(|_| json!({"tools": [1], "nextCursor": "a"})).await;
        assert_eq!((repeating.entries.len(), repeating.stop_reason.is_some()), (1, true));
        let endless = pages(|cursor| {
            let number = cursor.map_or(0, |cursor| cursor.parse::<u32>().expect("ours"));
            json!({"tools": [number], "nextCursor": (number + 1).to_string()})
        });
        assert_eq!(endless.await.entries.len(), 100);
        let many = pages(|_| json!({"tools": (0..5_000).collect::<Vec<_>>()})).await;
        assert_eq!((many.entries.len(), many.stop_reason.is_some()), (2_000, true));
        assert_eq!(pages(|_| json!({"tools": "x"})).await, PagedList::default());
    }
}
