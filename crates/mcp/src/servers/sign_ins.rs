//! The servers that want a sign-in, and what comes after one.

use crate::servers::Servers;

/// A server that wants a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedSignIn {
    /// Its name.
    pub server: String,
    /// Whether there was one, which no longer counts.
    pub again: bool,
    /// Whether the person is to be asked at once (`oauth.enabled`).
    pub asks: bool,
}

impl Servers {
    /// Connects a server anew, with the sign-in that there is now.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn reconnect(&self, name: &str) -> Result<(), String> {
        if let Some(server) = self.find(name) {
            server.disconnect().await;
            self.told().remove(name);
        }
        self.connect(name).await
    }

    /// The servers that want a sign-in, each once: whoever asks tells the person.
    pub fn sign_ins(&self) -> Vec<WantedSignIn> {
        let mut told = self.told();
        let wanting = self.inner.servers.iter().filter_map(|server| {
            let again = server.wants_sign_in()?;
            let name = server.config.name.clone();
            let asks = server.config.oauth.enabled;
            told.insert(name.clone()).then_some(WantedSignIn { server: name, again, asks })
        });
        wanting.collect()
    }
}
