//! URLs of repositories, without what gives access to them.

/// Returns a URL without the password in it and, for HTTP, without the user name, which may be a
/// token. Other addresses stay as they are.
pub fn without_credentials(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (authority, path) = match rest.find(['/', '?', '#']) {
        Some(end) => rest.split_at(end),
        None => (rest, ""),
    };
    let Some((user, host)) = authority.rsplit_once('@') else { return address.to_owned() };
    let name = user.split_once(':').map_or(user, |(name, _)| name);
    let is_http = ["http", "https"].iter().any(|it| scheme.eq_ignore_ascii_case(it));
    match is_http || name.is_empty() {
        true => format!("{scheme}://{host}{path}"),
        false => format!("{scheme}://{name}@{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_tokens_are_removed_from_urls() {
        for (address, shown) in [
            ("https://user:pw@git.example/a.git", "https://git.example/a.git"),
            ("https://token@git.example:8443/a@b", "https://git.example:8443/a@b"),
            ("http://u:p@ss@h", "http://h"),
            ("ssh://git:pw@git.example/a.git", "ssh://git@git.example/a.git"),
            ("ssh://git@git.example/a.git", "ssh://git@git.example/a.git"),
            ("https://git.example/@scope/a", "https://git.example/@scope/a"),
            ("git@git.example:a.git", "git@git.example:a.git"),
            ("/srv/a.git", "/srv/a.git"),
        ] {
            assert_eq!(without_credentials(address), shown);
        }
    }
}
