//! A client that only reaches public hosts.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Attempt, Policy};
use url::Url;

use crate::address::{AddressError, blocked_host_name, check_url, is_public};
use crate::client::{HttpError, builder, finish, system_proxies};
use crate::client_options::{ClientOptions, Redirects};

/// A client whose connections all go to public addresses: literal private addresses and local names
/// are rejected, names are resolved once and the connection uses the checked address, and every
/// redirect is checked. Through a proxy, only the URL itself can be checked, because the proxy
/// resolves names.
#[derive(Debug, Clone)]
pub struct GuardedClient {
    client: reqwest::Client,
    allowed: Arc<[IpAddr]>,
}

impl GuardedClient {
    /// Starts a request. Put no secrets into custom headers: a redirect may lead to another host.
    ///
    /// # Errors
    /// Returns an error if the URL may not be fetched.
    pub fn request(
        &self,
        method: reqwest::Method,
        url: &Url,
    ) -> Result<reqwest::RequestBuilder, AddressError> {
        check_url(url, &self.allowed)?;
        Ok(self.client.request(method, url.clone()))
    }

    /// Returns the underlying client, for a library that needs one. It checks names only; the
    /// library must check literal addresses and names of this machine.
    pub fn into_inner(self) -> reqwest::Client {
        self.client
    }
}

/// Whether a host, as written in a URL, leads only to this machine or a private network.
pub async fn is_private_host(host: &str) -> bool {
    if blocked_host_name(host) {
        return true;
    }
    let found = tokio::net::lookup_host((host, 0)).await;
    let found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    !found.is_empty() && found.iter().all(|found| !is_public(found.ip()))
}

/// Returns the [`AddressError`] that caused a failed request of a [`GuardedClient`].
pub fn blocked_address_error(error: &reqwest::Error) -> Option<AddressError> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<AddressError>() {
            return Some(found.clone());
        }
        cause = error.source();
    }
    None
}

/// Builds a guarded client. `allowed` contains addresses that may be reached although they are not
/// public (granted by the user, or the server of a test). [`Redirects::SameHost`] and
/// [`Redirects::Any`] both mean this many redirects, each of which is checked.
///
/// # Errors
/// Same as [`crate::client`].
pub fn guarded_client(
    options: &ClientOptions,
    allowed: &[IpAddr],
) -> Result<GuardedClient, HttpError> {
    let allowed: Arc<[IpAddr]> = allowed.into();
    let proxies: HashSet<String> = match &options.proxy {
        Some(address) => vec![address.clone()],
        None if options.system_proxy => system_proxies().collect(),
        None => Vec::new(),
    }
    .iter()
    .filter_map(|address| proxy_host(address))
    .collect();
    let mut builder = builder(options)?
        .dns_resolver(Arc::new(GuardedResolver { allowed: allowed.clone(), proxies }));
    if let Redirects::SameHost(most) | Redirects::Any(most) = options.redirects {
        let allowed = allowed.clone();
        builder = builder.redirect(Policy::custom(move |attempt: Attempt<'_>| {
            if attempt.previous().len() > most {
                return attempt.error("too many redirects");
            }
            match check_url(attempt.url(), &allowed) {
                Ok(()) => attempt.follow(),
                Err(refused) => attempt.error(refused),
            }
        }));
    }
    Ok(GuardedClient { client: finish(builder)?, allowed })
}

/// Returns the host of a proxy URL, which may lack its scheme.
fn proxy_host(address: &str) -> Option<String> {
    let with_scheme =
        if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    Url::parse(&with_scheme).ok()?.host_str().map(str::to_ascii_lowercase)
}

struct GuardedResolver {
    allowed: Arc<[IpAddr]>,
    /// Hosts of proxies, which may be in a private network.
    proxies: HashSet<String>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let allowed = self.allowed.clone();
        let is_proxy = self.proxies.contains(&host.to_ascii_lowercase());
        Box::pin(async move {
            if !is_proxy && blocked_host_name(&host) {
                return Err(AddressError::PrivateHost { host }.into());
            }
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            if !is_proxy {
                check_resolved(&host, &found, &allowed)?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Checks resolved addresses. One private address is enough to reject the name, because DNS
/// rebinding mixes public and private addresses.
fn check_resolved(
    host: &str,
    found: &[SocketAddr],
    allowed: &[IpAddr],
) -> Result<(), AddressError> {
    match found.iter().map(SocketAddr::ip).find(|ip| !is_public(*ip) && !allowed.contains(ip)) {
        Some(address) => Err(AddressError::PrivateAddress { host: host.to_owned(), address }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_one_private_address_is_blocked() {
        let mixed = ["8.8.8.8:0", "10.0.0.1:0"].map(|a| a.parse().expect("an address"));
        assert!(check_resolved("rebind.example", &mixed, &[]).is_err());
        assert!(check_resolved("rebind.example", &mixed[..1], &[]).is_ok());
        assert!(check_resolved("intranet", &mixed, &["10.0.0.1".parse().expect("ip")]).is_ok());
    }

    #[tokio::test]
    async fn hosts_of_this_machine_are_private() {
        for host in ["localhost", "[::1]", "10.0.0.9"] {
            assert!(is_private_host(host).await, "{host}");
        }
        for host in ["8.8.8.8", "nobody.invalid"] {
            assert!(!is_private_host(host).await, "{host}");
        }
    }

    #[test]
    fn proxy_is_parsed_with_and_without_scheme() {
        assert_eq!(proxy_host("http://u:p@Proxy.corp:8080").as_deref(), Some("proxy.corp"));
        assert_eq!(proxy_host("proxy.corp:8080").as_deref(), Some("proxy.corp"));
    }
}
