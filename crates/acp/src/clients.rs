//! The clients of a session. All receive its updates, and any of them can answer its questions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::connection::ClientConnection;
use crate::elicitation_answer::is_answer;
use crate::rpc::RpcError;
use crate::updates::ClientFeatures;

/// How long one of several clients may delay the others before it is removed.
const SLOW: Duration = Duration::from_secs(2);

/// New clients that an open request may not have seen yet.
const JOINED: usize = 64;

/// The clients of a session. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SessionClients {
    all: Arc<Mutex<Vec<ClientConnection>>>,
    /// Tells open requests about new clients.
    new_clients: broadcast::Sender<ClientConnection>,
}

impl SessionClients {
    pub(crate) fn new(first: ClientConnection) -> Self {
        Self { all: Arc::new(Mutex::new(vec![first])), new_clients: broadcast::channel(JOINED).0 }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ClientConnection>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a client is connected to the session.
    pub(crate) fn has(&self, client: &ClientConnection) -> bool {
        self.lock().iter().any(|known| known.is_same(client))
    }

    /// Returns the first client, in the order in which they joined, for which this holds.
    pub(crate) fn find(
        &self,
        holds: impl Fn(&ClientConnection) -> bool,
    ) -> Option<ClientConnection> {
        self.lock().iter().find(|client| holds(client)).cloned()
    }

    /// Adds a client. It also receives the requests that are open.
    pub(crate) fn add(&self, client: ClientConnection) {
        self.lock().push(client.clone());
        // Fails only if no request is open.
        let _ = self.new_clients.send(client);
    }

    /// Removes a client and returns the number of remaining ones.
    pub(crate) fn remove(&self, client: &ClientConnection) -> usize {
        let mut all = self.lock();
        all.retain(|known| !known.is_same(client));
        all.len()
    }

    fn all(&self) -> Vec<ClientConnection> {
        self.lock().clone()
    }

    /// Sends an update to all clients. If there is only one, the session waits for it.
    pub(crate) async fn update(&self, session: &str, update: Value) {
        let all = self.all();
        if let [only] = all.as_slice() {
            return only.update(session, update).await;
        }
        for client in all {
            let sent = tokio::time::timeout(SLOW, client.update(session, update.clone())).await;
            if sent.is_err() {
                tracing::warn!(
                    "a client of the session `{session}` is too slow and was \
                    disconnected"
                );
                self.remove(&client);
            }
        }
    }

    /// Sends an update to all clients but one.
    pub(crate) async fn update_others(
        &self,
        client: &ClientConnection,
        session: &str,
        update: Value,
    ) {
        for other in self.all().into_iter().filter(|other| !other.is_same(client)) {
            // A client that is too slow is removed with the next update.
            let update_sent = other.update(session, update.clone());
            let _ = tokio::time::timeout(SLOW, update_sent).await;
        }
    }

    /// Notifies the clients that follow turns, except the one that began this turn: it has a
    /// response.
    pub(crate) async fn notify_turn(&self, beginner: &ClientConnection, params: Value) {
        for client in self.all().into_iter().filter(|client| !client.is_same(beginner)) {
            client.notify_turn(params.clone()).await;
        }
    }

    /// Sends a notification to the clients that offer something.
    pub(crate) async fn notify(
        &self,
        method: &str,
        params: Value,
        offers: fn(ClientFeatures) -> bool,
    ) {
        for client in self.all().into_iter().filter(|client| offers(client.features())) {
            client.notify(method, params.clone()).await;
        }
    }

    /// Sends a request to all clients, without a time limit, and returns the first answer. The
    /// others learn the result from updates.
    ///
    /// # Errors
    /// Returns the error of the last client if none can answer.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        params: Value,
    ) -> Result<Value, RpcError> {
        self.request_from(method, params, |_| true, |_| true).await
    }

    /// Shows a question to the user of each client that offers this kind, like
    /// [`Self::request`]. A malformed response counts as an error.
    ///
    /// # Errors
    /// Returns an error if no client can show the question.
    pub(crate) async fn elicit(
        &self,
        params: Value,
        offers: fn(ClientFeatures) -> bool,
    ) -> Result<Value, RpcError> {
        self.request_from("elicitation/create", params, offers, is_answer).await
    }

    async fn request_from(
        &self,
        method: &'static str,
        params: Value,
        offers: fn(ClientFeatures) -> bool,
        is_valid: fn(&Value) -> bool,
    ) -> Result<Value, RpcError> {
        let mut joined = self.new_clients.subscribe();
        let (mut questions, mut known) = (JoinSet::new(), Vec::<ClientConnection>::new());
        let mut ask = |asked: &mut JoinSet<_>, client: ClientConnection| {
            if !offers(client.features()) || known.iter().any(|known| known.is_same(&client)) {
                return;
            }
            known.push(client.clone());
            let params = params.clone();
            asked.spawn(async move { client.request(method, params).await });
        };
        self.all().into_iter().for_each(|client| ask(&mut questions, client));
        let mut error = None;
        loop {
            tokio::select! {
                answer = questions.join_next() => match answer {
                    Some(Ok(Ok(answer))) if is_valid(&answer) => return Ok(answer),
                    Some(Ok(Ok(_))) => {
                        error = Some(RpcError::internal("a client sent a malformed response"));
                    }
                    Some(Ok(Err(refused))) if !refused.is_disconnected() => error = Some(refused),
                    Some(_) => {}
                    None => match joined.try_recv() {
                        Ok(client) => ask(&mut questions, client),
                        Err(_) => return Err(error.unwrap_or_else(|| self.no_answer())),
                    },
                },
                Ok(client) = joined.recv() => ask(&mut questions, client),
            }
        }
    }

    /// Returns why no client has answered.
    fn no_answer(&self) -> RpcError {
        match self.all().iter().all(ClientConnection::is_disconnected) {
            true => RpcError::disconnected(),
            false => RpcError::internal("no client of the session can answer this request"),
        }
    }
}
