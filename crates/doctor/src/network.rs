//! Checks of the path to the model, step by step: proxy, DNS, connection, TLS, clock, and API key.

use std::time::{Duration, SystemTime};

use parallax_gemini::{Gemini, GeminiOptions, KeyCheck};
use parallax_http::url::Url;
use parallax_http::{ClientOptions, Failure as HttpFailure, FailureKind as HttpFailureKind};
use parallax_protocol::event::FailureKind;
use parallax_protocol::local_host::is_this_machine;
use tokio::net::{TcpStream, lookup_host};

use crate::{CheckStatus, DoctorCheck};
use parallax_sdk::SessionConfig;
use parallax_sdk::credential::{Credential, model_failure};

/// Time limit of a step.
const STEP_LIMIT: Duration = Duration::from_secs(5);
/// Clock difference above which authentication and certificates fail.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(300);

fn check(step: &str, status: CheckStatus, title: &str, detail: impl Into<String>) -> DoctorCheck {
    DoctorCheck::new(&format!("network.{step}"), status, title, detail)
}

fn skipped_check(step: &str, title: &str, reason: &str) -> DoctorCheck {
    check(step, CheckStatus::Skipped, title, format!("not checked, because {reason}"))
}

/// Runs the steps in order; after a failure the rest is skipped.
pub(crate) async fn checks(launch: &SessionConfig) -> Vec<DoctorCheck> {
    let base = match base_url(launch).await {
        Ok(Some(base)) => base,
        Ok(None) => {
            let reason = "there are no credentials, so no service is selected";
            return vec![skipped_check("proxy", "Network", reason)];
        }
        Err(reason) => {
            return vec![check("service", CheckStatus::Error, "Service", reason).with_fix(
                "Correct the base URL or the name of the model; `parallax models list` shows \
                     what can be used.",
            )];
        }
    };
    let mut checks = unusable_settings(launch).await;
    let (proxy, target) = match proxy(launch, &base) {
        Ok((proxy, target, check)) => {
            checks.push(check);
            (proxy, target)
        }
        Err(check) => {
            checks.push(check);
            return checks;
        }
    };
    match connection(&target, proxy.as_deref(), is_local(&base)).await {
        Ok(found) => checks.extend(found),
        Err(failed) => {
            checks.extend(failed);
            checks.push(skipped_check("tls", "Service", "the connection failed"));
            checks.push(skipped_check("key", "Key", "the connection failed"));
            return checks;
        }
    }
    let (service, works) = check_service(launch, &base).await;
    checks.extend(service);
    checks.push(match works {
        true => check_key(launch).await,
        false => skipped_check("key", "Key", "the service does not respond"),
    });
    checks
}

/// Reports variables that requests ignore because their values cannot be used.
async fn unusable_settings(launch: &SessionConfig) -> Vec<DoctorCheck> {
    let environment = launch.config().environment.clone();
    let roots = launch.client_options().extra_roots;
    let lookup = tokio::task::spawn_blocking(move || {
        let env = |name: &str| environment.process_variable(name).map(str::to_owned);
        (parallax_http::invalid_proxies(&env), parallax_http::unusable_roots(&roots))
    });
    let (proxies, roots) = lookup.await.unwrap_or_default();
    let proxy_check = |name: &str| {
        let detail = format!("`{name}` is not a proxy URL, so requests do not use it");
        check("proxy-variable", CheckStatus::Error, "Proxy", detail)
            .with_fix(format!("Correct `{name}`, for example `http://proxy.example:3128`."))
    };
    let certificate_check = |problem: &String| {
        check("certificates", CheckStatus::Error, "Certificates", format!("not used: {problem}"))
            .with_fix(
                "Correct `NODE_EXTRA_CA_CERTS` (or `SSL_CERT_FILE`): it names a file with \
                 certificates in PEM form.",
            )
    };
    proxies.into_iter().map(proxy_check).chain(roots.iter().map(certificate_check)).collect()
}

/// Returns the base URL of the model's provider; `None` without credentials, which another check
/// reports.
async fn base_url(launch: &SessionConfig) -> Result<Option<Url>, String> {
    let launch = launch.clone();
    let lookup = tokio::task::spawn_blocking(move || {
        let manager = launch.provider_manager();
        // Another check reports invalid settings.
        let Ok(table) = manager.checked_model_table() else { return Ok(None) };
        if let Some(error) = manager.model_error(&launch.model_name()) {
            return Err(error);
        }
        let name = table.resolve(&launch.model_name());
        if let Some((provider, _)) = table.providers().split(&name) {
            let url = Url::parse(&provider.base_url).ok();
            let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            let source = &provider.base_url_source;
            return match url {
                Some(url) => Ok(Some(url)),
                None => Err(format!("the base URL of `{}` ({source}) is not valid", provider.name)),
            };
        }
        match manager.credential() {
            Credential::NotNeeded | Credential::Missing { .. } => Ok(None),
            Credential::Found { .. } => gemini(&launch).map(|it| Some(it.base_url().clone())),
        }
    });
    lookup.await.unwrap_or(Ok(None))
}

fn gemini(launch: &SessionConfig) -> Result<Gemini, String> {
    let (auth, _) = launch.provider_manager().auth().map_err(|failure| failure.message)?;
    let env = |name: &str| launch.config().environment.get(name).map(str::to_owned);
    let mut options = GeminiOptions::from_env(auth, &env);
    options.version = launch.options().version.to_owned();
    options.variables.clone_from(&launch.options().variables);
    Gemini::new(options).map_err(|error| error.to_string())
}

/// Returns a URL without the user, the password, and the query, which may hold keys.
fn display_url(url: &Url) -> String {
    let mut url = url.clone();
    // Only URLs without a host refuse this, and they have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

fn is_local(base: &Url) -> bool {
    base.host_str().is_some_and(is_this_machine)
}

fn client_options(launch: &SessionConfig, base: &Url) -> ClientOptions {
    ClientOptions {
        system_proxy: !is_local(base),
        connect_timeout: STEP_LIMIT,
        timeout: Some(STEP_LIMIT),
        plain_http: base.scheme() == "http",
        ..launch.client_options()
    }
}

/// Returns the proxy, the host and port to connect to (those of the proxy or of the provider), and
/// the check.
#[expect(clippy::type_complexity, reason = "the parts of one answer")]
fn proxy(
    launch: &SessionConfig,
    base: &Url,
) -> Result<(Option<String>, (String, u16), DoctorCheck), DoctorCheck> {
    let found = parallax_http::proxy_of(&client_options(launch, base), base.as_str());
    let (url, detail) = match &found {
        Some(proxy) => {
            let url = Url::parse(proxy).ok();
            let name = url.as_ref().map_or_else(|| "a malformed address".to_owned(), display_url);
            (url, format!("{name} for {}", display_url(base)))
        }
        None => (Some(base.clone()), format!("none for {}", display_url(base))),
    };
    let target = url.as_ref().and_then(|url| {
        let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
        Some((host, url.port_or_known_default().unwrap_or(1080)))
    });
    match target {
        Some(target) => Ok((found, target, check("proxy", CheckStatus::Info, "Proxy", detail))),
        None => Err(check("proxy", CheckStatus::Error, "Proxy", format!("invalid: {detail}"))
            .with_fix("Correct `HTTPS_PROXY`, for example `http://proxy.example:3128`.")),
    }
}

/// Resolves the host name and connects.
async fn connection(
    (host, port): &(String, u16),
    proxy: Option<&str>,
    is_local: bool,
) -> Result<Vec<DoctorCheck>, Vec<DoctorCheck>> {
    let what = if proxy.is_some() { "the proxy" } else { "the service" };
    let resolved = tokio::time::timeout(STEP_LIMIT, lookup_host((host.as_str(), *port))).await;
    let addresses: Vec<_> = match resolved {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => return Err(vec![name_error(host, what, &error.to_string())]),
        Err(_) => return Err(vec![name_error(host, what, "no response within 5 s")]),
    };
    let Some(first) = addresses.first() else {
        return Err(vec![name_error(host, what, "the host name has no address")]);
    };
    let detail = format!("{host} is {}", first.ip());
    let mut checks = vec![check("dns", CheckStatus::Ok, "Name", detail)];
    let mut problem = String::new();
    for address in &addresses {
        match tokio::time::timeout(STEP_LIMIT, TcpStream::connect(address)).await {
            Ok(Ok(_)) => {
                let detail = format!("{what} at {address} accepts connections");
                checks.push(check("connection", CheckStatus::Ok, "Connection", detail));
                return Ok(checks);
            }
            Ok(Err(error)) => problem = format!("{address}: {error}"),
            Err(_) => problem = format!("{address}: no response within 5 s"),
        }
    }
    let remedy = match (proxy, is_local) {
        (Some(_), _) => {
            "Start the proxy, or correct `HTTPS_PROXY`, `HTTP_PROXY`, or `ALL_PROXY`; `NO_PROXY` \
             lists hosts without a proxy."
        }
        (None, true) => "Start the model server on this machine, or correct its base URL.",
        (None, false) => {
            "Check the network and the firewall; if a proxy is required, set `HTTPS_PROXY`."
        }
    };
    let detail = format!("{what} cannot be reached: {problem}");
    checks.push(check("connection", CheckStatus::Error, "Connection", detail).with_fix(remedy));
    Err(checks)
}

fn name_error(host: &str, what: &str, reason: &str) -> DoctorCheck {
    check(
        "dns",
        CheckStatus::Error,
        "Name",
        format!("{host} ({what}) cannot be resolved: {reason}"),
    )
    .with_fix("Check the name, the network, and `/etc/resolv.conf`.")
}

/// Sends a request without a key and compares the clocks.
async fn check_service(launch: &SessionConfig, base: &Url) -> (Vec<DoctorCheck>, bool) {
    let options = client_options(launch, base);
    let client_task = tokio::task::spawn_blocking(move || parallax_http::client(&options));
    let client = match client_task.await {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => {
            let failed = check("tls", CheckStatus::Error, "Service", error.to_string()).with_fix(
                "Install CA certificates (package `ca-certificates`), or set \
                 `SSL_CERT_FILE` to a file with them in PEM form.",
            );
            return (vec![failed], false);
        }
        Err(_) => return (Vec::new(), false),
    };
    let response = match client.get(base.clone()).send().await {
        Ok(response) => response,
        Err(error) => {
            let proxy = parallax_http::proxy_of(&client_options(launch, base), base.as_str());
            return (vec![service_error(&HttpFailure::from(error), proxy.as_deref())], false);
        }
    };
    let status = response.status().as_u16();
    let date = response.headers().get("date").and_then(|date| date.to_str().ok());
    let date = date.and_then(parse_date);
    if status == 407 {
        let detail = "the proxy requires authentication (status 407)";
        let failed = check("tls", CheckStatus::Error, "Service", detail)
            .with_fix("Add the user and password to the proxy URL.");
        return (vec![failed], false);
    }
    let how = if base.scheme() == "https" { "the certificate is trusted, and it" } else { "it" };
    let mut checks =
        vec![check("tls", CheckStatus::Ok, "Service", format!("{how} responds (status {status})"))];
    if let Some(theirs) = date {
        let ours = SystemTime::now();
        let difference = ours.duration_since(theirs).unwrap_or_else(|error| error.duration());
        let seconds = difference.as_secs();
        checks.push(match difference > MAX_CLOCK_DIFFERENCE {
            false => check("clock", CheckStatus::Ok, "Clock", format!("off by {seconds} s")),
            true => {
                let late = if ours > theirs { "ahead of" } else { "behind" };
                let detail = format!("{} {late} the clock of the provider", duration(seconds));
                check("clock", CheckStatus::Error, "Clock", detail)
                    .with_fix("Set the clock (`timedatectl set-ntp true`).")
            }
        });
    }
    (checks, true)
}

fn duration(seconds: u64) -> String {
    match seconds {
        172_800.. => format!("{} days", seconds / 86_400),
        7_200.. => format!("{} hours", seconds / 3_600),
        120.. => format!("{} minutes", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

fn parse_date(text: &str) -> Option<SystemTime> {
    let time = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(SystemTime::from(time.timestamp()))
}

fn service_error(failure: &HttpFailure, proxy: Option<&str>) -> DoctorCheck {
    if let Some(proxy) = proxy.filter(|_| failure.message.contains("tunnel")) {
        let proxy =
            Url::parse(proxy).map_or_else(|_| "the proxy".to_owned(), |url| display_url(&url));
        let needs_login = failure.message.contains("authorization required");
        let (reason, remedy) = match needs_login {
            true => (
                "requires authentication (status 407)",
                "Add the user and password to the proxy URL: `http://USER:PASSWORD@HOST:PORT`.",
            ),
            false => (
                "refuses to connect to the service",
                "Ask for access to the service through this proxy, or list its host in `NO_PROXY`.",
            ),
        };
        let detail = format!("the proxy {proxy} {reason}: {}", failure.message);
        return check("tls", CheckStatus::Error, "Service", detail).with_fix(remedy);
    }
    let remedy = match failure.kind {
        HttpFailureKind::Certificate if is_about_time(&failure.message) => {
            "Check the clock of this machine first (`timedatectl`): the certificate is not valid at \
             its time. Otherwise the certificate of the service is out of date."
        }
        HttpFailureKind::Certificate => {
            "If a company proxy replaces certificates, set `NODE_EXTRA_CA_CERTS` to its root \
             certificate. If the certificate is expired or not valid yet, check the clock."
        }
        HttpFailureKind::Tls => "Something between this machine and the service breaks TLS.",
        HttpFailureKind::Timeout | HttpFailureKind::ConnectTimeout => {
            "The service does not respond in time: check the network."
        }
        HttpFailureKind::Dns => "Check the name, the network, and `/etc/resolv.conf`.",
        _ => "Check the proxy and the firewall.",
    };
    check("tls", CheckStatus::Error, "Service", failure.message.clone()).with_fix(remedy)
}

/// Whether a certificate was rejected because of the time.
fn is_about_time(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("not valid yet") || message.contains("expired")
}

/// Checks whether the provider accepts the key.
async fn check_key(launch: &SessionConfig) -> DoctorCheck {
    let result = match provider(launch) {
        Some(name) => {
            let listings = launch.provider_manager().list_models(Some(&name), STEP_LIMIT).await;
            let first = listings.into_iter().next().map(|listing| listing.models);
            first.unwrap_or_else(|| Ok(Vec::new())).map(|_| KeyCheck::Accepted)
        }
        None => {
            let config = launch.clone();
            let opened = tokio::task::spawn_blocking(move || gemini(&config)).await;
            match opened {
                Ok(Ok(gemini)) => gemini.check().await.map_err(model_failure),
                Ok(Err(reason)) => return check("key", CheckStatus::Error, "Key", reason),
                Err(_) => return skipped_check("key", "Key", "there are no credentials"),
            }
        }
    };
    let of = |status, detail: String| check("key", status, "Key", detail);
    match result {
        Ok(KeyCheck::Accepted) => of(CheckStatus::Ok, "the service accepts it".to_owned()),
        Ok(KeyCheck::OutOfQuota) => {
            of(CheckStatus::Warning, "the key is valid, but its quota is exhausted".to_owned())
                .with_fix("Wait until the quota is renewed, or enable billing for the key.")
        }
        Ok(KeyCheck::Unsupported(status)) => of(
            CheckStatus::Warning,
            format!("not checked: the gateway responds with status {status}"),
        )
        .with_fix(
            "If prompts also fail, correct the path of the base URL; `parallax models test` sends \
             a small request.",
        ),
        Ok(KeyCheck::NotTheService) => of(
            CheckStatus::Error,
            "a web page was returned instead of the service's response".to_owned(),
        )
        .with_fix("Sign in to the network in a browser, or correct the base URL."),
        // The service knows the key: another key of the same project would also be rejected.
        Err(failure) if failure.kind == FailureKind::Auth && failure.status == Some(403) => {
            check("key", CheckStatus::Error, "Key", failure.message).with_fix(
                "The key is valid but lacks this permission: enable the API for its project, or \
                 correct the restrictions of the key.",
            )
        }
        Err(failure) if failure.kind == FailureKind::Auth => {
            let provider = provider(launch).unwrap_or_else(|| "gemini".to_owned());
            check("key", CheckStatus::Error, "Key", failure.message).with_fix(format!(
                "Store a valid key with `parallax auth add {provider}`; a key in the environment \
                 takes precedence over it, so correct or unset that one."
            ))
        }
        // Only another URL or another account helps.
        Err(failure) if is_rejection(failure.status) => {
            check("key", CheckStatus::Error, "Key", failure.message).with_fix(
                "Correct the base URL, or use an account and a region that the service supports.",
            )
        }
        Err(failure) => check("key", CheckStatus::Warning, "Key", failure.message)
            .with_fix("Check the base URL, and try again later."),
    }
}

/// Whether a service that returned this status will answer the same request in the same way later.
fn is_rejection(status: Option<u16>) -> bool {
    status.is_some_and(|status| (300..500).contains(&status) && !matches!(status, 408 | 409 | 429))
}

/// Returns the provider that the model names; `None` for Gemini.
fn provider(launch: &SessionConfig) -> Option<String> {
    let table = launch.provider_manager().model_table();
    let name = table.resolve(&launch.model_name());
    table.providers().split(&name).map(|(provider, _)| provider.name.clone())
}
