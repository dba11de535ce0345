//! Which redirects are followed, and which headers are sent along.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use parallax_http::address::AddressError;
use parallax_http::{ClientOptions, Redirects, blocked_address_error, client, guarded_client};

/// Answers each connection with the next of `answers` and reports the request heads.
fn serve(host: &str, answers: Vec<String>) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind((host, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, heads) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut head = String::new();
            let mut lines = BufReader::new(stream.try_clone().expect("a clone"));
            while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).expect("a line") > 0 {}
            let _ = sender.send(head);
            stream.write_all(answer.as_bytes()).expect("written");
        }
    });
    (address, heads)
}

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 307 R\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

fn plain(redirects: Redirects) -> ClientOptions {
    ClientOptions { redirects, system_proxy: false, plain_http: true, ..Default::default() }
}

#[tokio::test]
async fn private_header_is_never_sent_to_another_host() {
    let (second, seen) = serve("127.0.0.2", vec![OK.into()]);
    let (first, _heads) = serve("127.0.0.1", vec![redirect(&format!("http://{second}/"))]);
    let client = client(&plain(Redirects::SameHost(5))).expect("a client");
    let answer = client
        .get(format!("http://{first}/"))
        .header("x-goog-api-key", "k")
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 307);
    assert!(seen.try_recv().is_err());
}

#[tokio::test]
async fn redirect_to_the_same_host_is_followed() {
    let (first, heads) = serve("127.0.0.1", vec![redirect("/moved"), OK.into()]);
    let client = client(&plain(Redirects::SameHost(5))).expect("a client");
    let answer = client.get(format!("http://{first}/a")).send().await.expect("an answer");
    assert_eq!(answer.text().await.expect("text"), "ok");
    assert!(heads.recv().expect("first").starts_with("GET /a "));
    assert!(heads.recv().expect("second").starts_with("GET /moved "));
}

#[tokio::test]
async fn guarded_client_checks_every_hop() {
    let local: IpAddr = "127.0.0.1".parse().expect("ip");
    let (target, _heads) = serve("127.0.0.1", vec![redirect("http://127.0.0.2:1/")]);
    let guarded = guarded_client(&plain(Redirects::Any(5)), &[local]).expect("a client");
    let url = format!("http://{target}/").parse().expect("a URL");
    let error = guarded
        .request(reqwest_method(), &url)
        .expect("allowed")
        .send()
        .await
        .expect_err("the hop is refused");
    assert_eq!(
        blocked_address_error(&error),
        Some(AddressError::PrivateHost { host: "127.0.0.2".into() })
    );
}

#[tokio::test]
async fn guarded_client_rejects_local_targets_at_once() {
    let guarded = guarded_client(&plain(Redirects::None), &[]).expect("a client");
    for text in ["http://127.0.0.1:1/", "http://localhost/", "http://2130706433/", "file:///x"] {
        let url = text.parse().expect("a URL");
        assert!(guarded.request(reqwest_method(), &url).is_err(), "{text}");
    }
}

fn reqwest_method() -> parallax_http::reqwest::Method {
    parallax_http::reqwest::Method::GET
}
