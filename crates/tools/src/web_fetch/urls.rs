//! Finds the URLs in a prompt.

use parallax_http::url::Url;

/// Maximum number of URLs of one call.
pub(super) const MAX_URLS: usize = 20;

/// Returns the URLs in `prompt`, without duplicates, in order. Every whitespace-separated word with
/// `://` must be an `http` or `https` URL; surrounding brackets, quotes, and punctuation are
/// ignored.
///
/// # Errors
/// Returns a string that lists all errors in the prompt.
pub(super) fn find(prompt: &str) -> Result<Vec<Url>, String> {
    let mut urls: Vec<Url> = Vec::new();
    let mut keys = Vec::new();
    let mut problems = Vec::new();
    for word in prompt.split_whitespace() {
        let Some(address) = address(word) else { continue };
        match parse(address) {
            Ok(url) => {
                let key = key(&url);
                if !keys.contains(&key) {
                    keys.push(key);
                    urls.push(url);
                }
            }
            Err(reason) => problems.push(reason),
        }
        if urls.len() > MAX_URLS || problems.len() > MAX_URLS {
            break;
        }
    }
    if !problems.is_empty() {
        return Err(format!("Errors in the URLs of the prompt:\n- {}", problems.join("\n- ")));
    }
    if urls.is_empty() {
        return Err(
            "The `prompt` must contain at least one URL that starts with `http://` or `https://`"
                .to_owned(),
        );
    }
    if urls.len() > MAX_URLS {
        return Err(format!("The `prompt` contains more than {MAX_URLS} URLs; use several calls"));
    }
    Ok(urls)
}

/// Parses one URL.
///
/// # Errors
/// Returns what is wrong with it.
pub(super) fn parse(address: &str) -> Result<Url, String> {
    let url = Url::parse(address)
        .map_err(|error| format!("`{}` is not a valid URL: {error}", address.escape_debug()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!(
            "`{}` is not supported: only `http` and `https` URLs are",
            address.escape_debug()
        ));
    }
    Ok(url)
}

/// Returns the key by which URLs are compared: the parser has lowercased the host and removed a
/// default port; a final slash is ignored.
fn key(url: &Url) -> String {
    let mut key = url.clone();
    let path = key.path().trim_end_matches('/').to_owned();
    key.set_path(&path);
    key.set_fragment(None);
    key.into()
}

/// Returns the part of `word` that is a URL, if it contains `://`.
fn address(word: &str) -> Option<&str> {
    let colon = word.find("://")?;
    let before = word.get(..colon)?;
    let start = before
        .char_indices()
        .rev()
        .take_while(|(_, letter)| {
            letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.')
        })
        .last()
        .map_or(colon, |(at, _)| at);
    let mut address = word.get(start..)?;
    // Removes surrounding Markdown and quotes: `<https://…>`, `"https://…"`, `(https://…).`
    while let Some(last) = address.chars().next_back() {
        let closes = match last {
            '.' | ',' | ';' | ':' | '!' | '?' | '"' | '\'' | '`' | '>' | '*' | '…' | '。'
            | '，' | '”' | '’' | '»' => true,
            ')' => has_unmatched_bracket(address, '(', ')'),
            ']' => has_unmatched_bracket(address, '[', ']'),
            '}' => has_unmatched_bracket(address, '{', '}'),
            _ => false,
        };
        if !closes {
            break;
        }
        address = address.strip_suffix(last)?;
    }
    Some(address)
}

fn has_unmatched_bracket(text: &str, open: char, close: char) -> bool {
    text.matches(close).count() > text.matches(open).count()
}

/// Returns the URL of the raw file for a GitHub page that shows a file.
pub(super) fn raw_file_url(url: &Url) -> Url {
    if url.host_str() == Some("github.com")
        && let Some((repository, file)) = url.path().split_once("/blob/")
        && repository.matches('/').count() == 2
    {
        let mut raw = url.clone();
        if raw.set_host(Some("raw.githubusercontent.com")).is_ok() {
            raw.set_path(&format!("{repository}/{file}"));
            return raw;
        }
    }
    url.clone()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find_urls(prompt: &str) -> Vec<String> {
        find(prompt).expect("addresses").into_iter().map(String::from).collect()
    }

    #[test]
    fn urls_are_extracted_and_counted_once() {
        assert_eq!(
            find_urls(
                "Compare (https://A.example:443/x), <http://b.example/y?q=1>. And \
                 https://a.example/x/ with [wiki](https://c.example/Rust_(language))!"
            ),
            ["https://a.example/x", "http://b.example/y?q=1", "https://c.example/Rust_(language)"]
        );
        assert!(find("no address here").is_err());
        let both = find("ftp://a.example/ http://[bad").expect_err("refused");
        assert!(both.contains("ftp://a.example/") && both.contains("http://[bad"), "{both}");
        let many: Vec<String> = (0..21).map(|n| format!("https://h{n}.example")).collect();
        assert!(find(&many.join(" ")).expect_err("too many").contains("more than 20"));
    }

    #[test]
    fn github_page_urls_are_converted_to_raw_files() {
        let raw = |text: &str| String::from(super::raw_file_url(&text.parse().expect("a URL")));
        assert_eq!(
            raw("https://github.com/o/r/blob/main/a/b.rs"),
            "https://raw.githubusercontent.com/o/r/main/a/b.rs"
        );
        assert_eq!(raw("https://github.com/o/r/issues/1"), "https://github.com/o/r/issues/1");
        assert_eq!(raw("https://evil.example/o/r/blob/x"), "https://evil.example/o/r/blob/x");
    }

    proptest! {
        #[test]
        fn arbitrary_prompt_does_not_panic(prompt in "(\\PC|://|https?://|[()\\[\\]<>., ]){0,60}") {
            let _ = find(&prompt);
        }
    }
}
