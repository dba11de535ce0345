//! Telemetry options from settings and from the variables of Gemini CLI and OpenTelemetry.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parallax_config::Config;
use parallax_google_auth::{CLOUD_PLATFORM, TokenPurpose, TokenSource};
use parallax_http::ClientOptions;
use parallax_http::url::Url;
use parallax_protocol::ids::SessionId;
use parallax_protocol::local_host::{host_of_url, is_this_machine};
use serde_json::Value;

use crate::otlp::GOOGLE_PROJECT;
use crate::{InheritedTrace, OtlpOptions, Telemetry, TelemetryOptions};

/// Default address of a local OTLP collector over HTTP.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
/// Google Cloud's telemetry endpoint.
const GOOGLE_ENDPOINT: &str = "https://telemetry.googleapis.com";
/// Default port of OTLP over gRPC, which is not supported.
const GRPC_PORT: u16 = 4317;
/// Default port of OTLP over HTTP.
const HTTP_PORT: u16 = 4318;
/// Default timeout of a request; `OTEL_EXPORTER_OTLP_TIMEOUT` overrides it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where the options of a session's telemetry come from.
pub struct TelemetrySettings<'a> {
    /// The configuration of the user and the project.
    pub config: &'a Config,
    /// The working directory.
    pub project: &'a Path,
    /// The environment variables of the process.
    pub variables: &'a [(OsString, OsString)],
    /// Options for connections to a collector.
    pub client: ClientOptions,
    /// Whether the user can answer questions.
    pub interactive: bool,
    /// Version of the program.
    pub version: &'static str,
    /// Returns the authentication method, if there are credentials.
    pub auth_type: &'a dyn Fn() -> Option<String>,
}

impl TelemetrySettings<'_> {
    /// Starts recording the session if enabled. Invalid options become warnings.
    pub fn start(&self, id: &SessionId, warnings: &mut Vec<String>) -> Option<Arc<Telemetry>> {
        if !self.is_enabled() {
            return None;
        }
        let options = self.options(id, warnings);
        if options.outfile.is_none() && options.otlp.is_none() {
            return None;
        }
        let seed = *uuid::Uuid::new_v4().as_bytes();
        match Telemetry::start(options, seed) {
            Ok(telemetry) => Some(telemetry),
            Err(error) => {
                warnings.push(format!("telemetry is not recorded: {error}"));
                None
            }
        }
    }

    fn is_enabled(&self) -> bool {
        let is_on = match self.config.settings.get("telemetry") {
            Some(Value::Bool(is_on)) => *is_on,
            _ => self.flag("GEMINI_TELEMETRY_ENABLED", "enabled"),
        };
        is_on && !self.config.environment.is_true("OTEL_SDK_DISABLED")
    }

    fn flag(&self, variable: &str, name: &str) -> bool {
        match self.config.environment.get(variable) {
            Some(_) => self.config.environment.is_true(variable),
            None => self.setting(name).and_then(Value::as_bool).unwrap_or(false),
        }
    }

    /// Returns a variable, or else a field of the setting `telemetry`. May be empty.
    fn text(&self, variable: &str, name: &str) -> Option<String> {
        let set = || self.setting(name).and_then(Value::as_str);
        self.config.environment.get(variable).or_else(set).map(str::to_owned)
    }

    fn setting(&self, name: &str) -> Option<&Value> {
        self.config.settings.get("telemetry")?.get(name)
    }

    fn options(&self, id: &SessionId, warnings: &mut Vec<String>) -> TelemetryOptions {
        let environment = &self.config.environment;
        let project = self.project.to_owned();
        let outfile = self
            .text("GEMINI_TELEMETRY_OUTFILE", "outfile")
            .filter(|path| !path.is_empty())
            .map(|path| project.join(self.config.expand_home(Path::new(&path))));
        // A project's files must not make prompts appear in the user's telemetry.
        let is_test = environment
            .process_variable("GEMINI_CLI_INTEGRATION_TEST")
            .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"));
        let parent = InheritedTrace::from_environment(environment);
        let otlp = self.otlp(outfile.is_some(), warnings);
        let mut resource = environment.get("OTEL_RESOURCE_ATTRIBUTES").map_or_else(Vec::new, pairs);
        let has_project = resource.iter().any(|(name, _)| name == GOOGLE_PROJECT);
        if otlp.as_ref().is_some_and(|otlp| otlp.google.is_some()) && !has_project {
            let project = ["OTLP_GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT"]
                .into_iter()
                .find_map(|name| environment.get(name).filter(|value| !value.is_empty()));
            resource.extend(project.map(|value| (GOOGLE_PROJECT.to_owned(), value.to_owned())));
        }
        TelemetryOptions {
            otlp,
            outfile,
            project,
            log_prompts: is_test || self.flag("GEMINI_TELEMETRY_LOG_PROMPTS", "logPrompts"),
            traces: self.flag("GEMINI_TELEMETRY_TRACES_ENABLED", "traces"),
            session: id.as_str().to_owned(),
            installation: installation(&self.config.dirs.parallax),
            interactive: self.interactive,
            auth_type: (self.auth_type)(),
            version: self.version,
            service_name: environment.get("OTEL_SERVICE_NAME").map(str::to_owned),
            resource,
            parent,
        }
    }

    /// Returns the collector. If telemetry is written to a file, it is sent only if a collector is
    /// configured explicitly.
    fn otlp(&self, has_file: bool, warnings: &mut Vec<String>) -> Option<OtlpOptions> {
        let variable = |name: &str| self.config.environment.get(name).map(str::to_owned);
        let target = self.text("GEMINI_TELEMETRY_TARGET", "target");
        let uses_collector = self.flag("GEMINI_TELEMETRY_USE_COLLECTOR", "useCollector");
        let is_google = target.as_deref() == Some("gcp") && !uses_collector;
        let named = self
            .text("GEMINI_TELEMETRY_OTLP_ENDPOINT", "otlpEndpoint")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let own = ["TRACES", "METRICS", "LOGS"]
            .map(|signal| variable(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")));
        let has_own = own.iter().any(Option::is_some);
        let is_named = named.as_ref().is_some_and(|named| !named.is_empty()) || has_own;
        let base = match named {
            Some(named) if named.is_empty() => None,
            Some(named) => Some(named),
            None if is_google => Some(GOOGLE_ENDPOINT.to_owned()),
            None if has_file || has_own => None,
            None => Some(DEFAULT_ENDPOINT.to_owned()),
        };
        let base = base.and_then(|base| self.http_endpoint(&base, warnings));
        // A query stays behind the path.
        let signal_url = |signal: &str| {
            base.as_ref().map(|base| match base.split_once('?') {
                Some((base, query)) => {
                    format!("{}/v1/{signal}?{query}", base.trim_end_matches('/'))
                }
                None => format!("{base}/v1/{signal}"),
            })
        };
        let [traces, metrics, logs] = own;
        let (traces, metrics, logs) = (
            traces.or_else(|| signal_url("traces")),
            metrics.or_else(|| signal_url("metrics")),
            logs.or_else(|| signal_url("logs")),
        );
        let urls = [&traces, &metrics, &logs];
        let first = urls.into_iter().flatten().next()?.clone();
        let is_plain = urls.into_iter().flatten().all(|url| url.starts_with("http://"));
        let is_local = is_this_machine(host_of_url(&first));
        let mut http =
            ClientOptions { plain_http: is_plain, system_proxy: !is_local, ..self.client.clone() };
        let roots = variable("OTEL_EXPORTER_OTLP_CERTIFICATE").map(PathBuf::from);
        let unusable = parallax_http::unusable_roots(roots.as_slice());
        warnings.extend(unusable.into_iter().map(|problem| format!("telemetry: {problem}")));
        http.extra_roots.extend(roots);
        let file = |name: &str| variable(name).map(PathBuf::from);
        let certificate = file("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE");
        let google = is_google.then(|| {
            let purpose = TokenPurpose::Access(vec![CLOUD_PLATFORM.to_owned()]);
            TokenSource::new(purpose, self.variables, &self.client)
        });
        let timeout = variable("OTEL_EXPORTER_OTLP_TIMEOUT").and_then(|text| text.parse().ok());
        Some(OtlpOptions {
            traces,
            metrics,
            logs,
            headers: variable("OTEL_EXPORTER_OTLP_HEADERS")
                .map_or_else(Vec::new, |text| pairs(&text)),
            timeout: timeout.map_or(TIMEOUT, Duration::from_millis),
            http,
            identity: certificate.zip(file("OTEL_EXPORTER_OTLP_CLIENT_KEY")),
            google,
            is_explicit: is_named || is_google,
        })
    }

    /// Returns the URL without a trailing slash. The gRPC port is replaced by the HTTP port.
    fn http_endpoint(&self, text: &str, warnings: &mut Vec<String>) -> Option<String> {
        let parsed = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(mut url) = parsed.filter(Url::has_host) else {
            warnings.push(format!(
                "telemetry is not sent: `{}` is not the address of a collector, for example \
                 `{DEFAULT_ENDPOINT}`",
                parallax_protocol::code_text::code_text(text)
            ));
            return None;
        };
        let protocol = self.text("GEMINI_TELEMETRY_OTLP_PROTOCOL", "otlpProtocol");
        let wants_grpc = protocol.as_deref() == Some("grpc");
        let is_grpc_port = url.port() == Some(GRPC_PORT) && protocol.as_deref() != Some("http");
        if is_grpc_port && url.set_port(Some(HTTP_PORT)).is_err() {
            return None;
        }
        let endpoint = url.as_str().trim_end_matches('/').to_owned();
        if wants_grpc || is_grpc_port {
            let mut redacted_url = url.clone();
            // A URL with a host takes both.
            let _ = redacted_url.set_password(None);
            let _ = redacted_url.set_username("");
            let shown = redacted_url.as_str().trim_end_matches('/');
            warnings.push(format!(
                "telemetry is sent over HTTP to `{shown}`, since gRPC is not supported"
            ));
        }
        Some(endpoint)
    }
}

/// Parses `name=value,name=value` with percent-encoded values.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        // The form decoder would turn `+` into a space.
        let value = format!("v={}", value.replace('+', "%2B").replace('&', "%26"));
        let query = parallax_http::url::form_urlencoded::parse(value.as_bytes()).next()?;
        (!name.is_empty()).then(|| (name.to_owned(), query.1.into_owned()))
    });
    pairs.collect()
}

/// Returns the random id of this installation, created on first use. If it cannot be saved, each
/// session gets a new one.
fn installation(home: &Path) -> String {
    let path = home.join("installation_id");
    let stored = std::fs::read_to_string(&path).ok();
    let stored = stored.map(|text| text.trim().to_owned());
    if let Some(id) = stored.filter(|id| uuid::Uuid::parse_str(id).is_ok()) {
        return id;
    }
    let id = uuid::Uuid::new_v4().to_string();
    let written = std::fs::create_dir_all(home).and_then(|()| std::fs::write(&path, &id));
    if let Err(error) = written {
        tracing::debug!("failed to save the installation id: {error}");
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_pairs_are_percent_decoded() {
        let read = pairs("a=1, b = x%20y ,c,=d,e=f+g&h");
        let expected = [("a", "1"), ("b", "x y"), ("e", "f+g&h")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read, expected);
    }
}
