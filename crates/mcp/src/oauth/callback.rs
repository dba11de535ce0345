//! Receives the browser redirect: one request on a local port.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long the user may take.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Timeout of one request.
const REQUEST: Duration = Duration::from_secs(5);
const MAX_LENGTH: usize = 16 * 1024;

/// Waits for the browser redirect.
pub(crate) struct RedirectListener {
    listener: TcpListener,
    path: String,
    redirect: String,
}

impl RedirectListener {
    /// Listens on the loopback interface only: on the port of `redirect`, otherwise on `port`,
    /// otherwise on any free port.
    pub(crate) async fn listen(redirect: Option<&str>, port: Option<u16>) -> io::Result<Self> {
        let provided = redirect.and_then(|redirect| url::Url::parse(redirect).ok());
        let requested_port = provided.as_ref().and_then(url::Url::port).or(port).unwrap_or(0);
        let listener = TcpListener::bind(("127.0.0.1", requested_port)).await?;
        let port = listener.local_addr()?.port();
        let path = provided.as_ref().map_or("/oauth/callback", |url| url.path()).to_owned();
        let redirect = match redirect {
            Some(redirect) => redirect.to_owned(),
            None => format!("http://localhost:{port}{path}"),
        };
        Ok(Self { listener, path, redirect })
    }

    /// Returns the redirect URI.
    pub(crate) fn redirect(&self) -> &str {
        &self.redirect
    }

    /// Waits for the redirect with this `state` and returns its target; `None` on timeout. Any web
    /// page or program can send a request here, so requests with another state are rejected and
    /// have no effect.
    pub(crate) async fn wait(self, state: Option<&str>) -> Option<String> {
        let waiting = async {
            loop {
                let Ok((stream, _)) = self.listener.accept().await else { continue };
                let answer_future = tokio::time::timeout(REQUEST, self.answer(stream, state));
                if let Ok(Ok(Some(target))) = answer_future.await {
                    return target;
                }
            }
        };
        let target = tokio::time::timeout(TIMEOUT, waiting).await.ok()?;
        url::Url::parse(&self.redirect).ok()?.join(&target).ok().map(String::from)
    }

    /// Answers one request; returns its target if it is the expected redirect.
    async fn answer(
        &self,
        mut stream: TcpStream,
        state: Option<&str>,
    ) -> io::Result<Option<String>> {
        let mut head = Vec::new();
        let mut buffer = [0; 2048];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MAX_LENGTH {
            let length = stream.read(&mut buffer).await?;
            if length == 0 {
                break;
            }
            head.extend_from_slice(buffer.get(..length).unwrap_or_default());
        }
        let head = String::from_utf8_lossy(&head);
        let target = head.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
        let is_ours = |target: &&str| {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            path == self.path && (query.contains("code=") || query.contains("error="))
        };
        let target = target.filter(is_ours).map(str::to_owned);
        let is_awaited = |target: &String| {
            let query = target.split_once('?').unwrap_or_default().1;
            let mut provided = url::form_urlencoded::parse(query.as_bytes());
            state
                .is_none_or(|state| provided.any(|(name, value)| name == "state" && value == state))
        };
        let (status, text) = match &target {
            Some(target) if !is_awaited(target) => {
                ("400 Bad Request", "This sign-in has ended already.")
            }
            Some(target) if target.contains("code=") => {
                ("200 OK", "You are signed in. You can close this page.")
            }
            Some(_) => ("200 OK", "The sign-in was rejected. You can close this page."),
            None => ("404 Not Found", "Not found."),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{text}",
            text.len()
        );
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        Ok(target.filter(is_awaited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(address: &str, target: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let request = format!("GET {target} HTTP/1.1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        answer
    }

    #[tokio::test]
    async fn callback_with_wrong_state_is_ignored() {
        let callback = RedirectListener::listen(None, None).await.expect("a port");
        let address = callback.listener.local_addr().expect("an address").to_string();
        let waiting = tokio::spawn(async move { callback.wait(Some("a b")).await });
        for invalid in ["code=1&state=x", "code=1", "error=no&state=", "error=no"] {
            let answer = get(&address, &format!("/oauth/callback?{invalid}")).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{invalid}: {answer}");
        }
        let answer = get(&address, "/oauth/callback?code=1&state=a%20b").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let back = waiting.await.expect("ended");
        assert!(back.is_some_and(|back| back.ends_with("?code=1&state=a%20b")));
    }
}
