//! Requests to a minimal server, with paused time.

use std::io;

use parallax_protocol::Object;
use rmcp::model::{CallToolRequest, CallToolRequestParams};
use rmcp::service::{NotificationContext, RunningService, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, ServiceExt as _};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::*;

/// A transport to a server in this process.
struct PipeTransport {
    to: mpsc::UnboundedSender<Value>,
    from: mpsc::UnboundedReceiver<Value>,
}

impl Transport<RoleClient> for PipeTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sent = serde_json::to_value(&item).map(|item| self.to.send(item).is_ok());
        std::future::ready(sent.map(drop).map_err(io::Error::other))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        serde_json::from_value(self.from.recv().await?).ok()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Starts a server whose tool reports progress `steps` times, each after a pause, and answers after
/// one more pause.
async fn server(
    pause: Duration,
    listeners: &Listeners,
) -> RunningService<RoleClient, ProgressHandler> {
    let (to, mut requests) = mpsc::unbounded_channel::<Value>();
    let (answers, from) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = requests.recv().await {
            let result = match message["method"].as_str() {
                Some("initialize") => json!({"protocolVersion": "2025-06-18", "capabilities": {},
                    "serverInfo": {"name": "s", "version": "1"}}),
                Some("tools/call") => {
                    let params = &message["params"];
                    for step in 0..params["arguments"]["steps"].as_u64().unwrap_or(0) {
                        sleep(pause).await;
                        let params = json!({"progressToken": params["_meta"]["progressToken"],
                            "progress": step});
                        let notification = json!({"jsonrpc": "2.0", "params": params,
                            "method": "notifications/progress"});
                        drop(answers.send(notification));
                    }
                    sleep(pause).await;
                    json!({"content": []})
                }
                _ => continue,
            };
            drop(answers.send(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})));
        }
    });
    ProgressHandler(listeners.clone()).serve(PipeTransport { to, from }).await.expect("connected")
}

/// Reports progress like the real handler.
struct ProgressHandler(Listeners);

impl ClientHandler for ProgressHandler {
    async fn on_progress(
        &self,
        report: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.0.report(&report);
    }
}

async fn call(pause: u64, steps: u64) -> Result<Value, McpError> {
    let listeners = Listeners::default();
    let server = server(Duration::from_millis(pause), &listeners).await;
    let arguments: Object = json!({"steps": steps}).as_object().cloned().expect("an object");
    let params = CallToolRequestParams::new("slow").with_arguments(arguments);
    let bounds = RequestOptions::with_timeout(Duration::from_millis(600));
    request(server.peer(), CallToolRequest::new(params).into(), bounds, &listeners).await
}

#[tokio::test(start_paused = true)]
async fn progress_resets_the_call_timeout() {
    // The total exceeds the timeout, but no single pause does.
    assert!(call(500, 5).await.is_ok());
    let after = Duration::from_millis(600);
    assert_eq!(call(700, 0).await, Err(McpError::Timeout { after }));
}

#[tokio::test(start_paused = true)]
async fn endless_progress_does_not_prevent_the_timeout() {
    let started_at = tokio::time::Instant::now();
    let ended = call(100, 1_000).await;
    assert!(matches!(ended, Err(McpError::Timeout { .. })), "{ended:?}");
    let took = started_at.elapsed();
    assert!((Duration::from_secs(6)..Duration::from_secs(7)).contains(&took), "{took:?}");
}

/// A transport to a server that reads only the handshake.
struct StuckTransport {
    read: u32,
    pipe: PipeTransport,
}

impl Transport<RoleClient> for StuckTransport {
    type Error = io::Error;

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.pipe.receive().await
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.read += 1;
        let stuck = self.read > 2;
        let sent = self.pipe.send(item);
        async move {
            match stuck {
                true => std::future::pending().await,
                false => sent.await,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_reads_nothing_does_not_block_calls() {
    let (to, mut requests) = mpsc::unbounded_channel::<Value>();
    let (answers, from) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let Some(message) = requests.recv().await else { return };
        let result = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"}});
        drop(answers.send(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})));
        // Keeps the connection open.
        sleep(Duration::from_secs(3600)).await;
        drop(answers);
    });
    let listeners = Listeners::default();
    let stuck = StuckTransport { read: 0, pipe: PipeTransport { to, from } };
    let server = ProgressHandler(listeners.clone()).serve(stuck).await.expect("connected");
    let started_at = Instant::now();
    for _ in 0..3 {
        let bounds = RequestOptions::with_timeout(Duration::from_secs(2));
        let tool_call = CallToolRequest::new(CallToolRequestParams::new("any")).into();
        let ended = request(server.peer(), tool_call, bounds, &listeners).await;
        assert_eq!(ended, Err(McpError::Timeout { after: Duration::from_secs(2) }));
    }
    assert!(started_at.elapsed() < Duration::from_secs(8), "{:?}", started_at.elapsed());
}

#[derive(Default)]
struct RecordedProgress(Mutex<Vec<String>>);

impl Progress for RecordedProgress {
    fn output(&self, text: &str) {
        self.0.lock().expect("no panic").push(text.to_owned());
    }
}

#[test]
fn progress_is_formatted_and_rate_limited() {
    let token = ProgressToken(NumberOrString::Number(1));
    let mut notification = ProgressNotificationParam::new(token.clone(), 1.0);
    let words =
        |notification: &ProgressNotificationParam| advance(notification).map(|it| it.to_string());
    assert_eq!(words(&notification).as_deref(), Some("1"));
    notification.total = Some(4.0);
    notification.message = Some("reading\n  more".into());
    assert_eq!(words(&notification).as_deref(), Some("reading more (25 %)"));
    notification.total = Some(f64::NAN);
    assert_eq!(words(&notification).as_deref(), Some("reading more (1)"));
    notification.progress = f64::INFINITY;
    assert_eq!(words(&notification), None);

    let (listeners, heard) = (Listeners::default(), Arc::new(RecordedProgress::default()));
    let listening = listeners.add(&token, Some(Arc::clone(&heard) as Arc<dyn Progress>));
    (notification.message, notification.total) = (None, Some(1_000.0));
    for step in 0..=1_000_u32 {
        notification.progress = f64::from(step);
        listeners.report(&notification);
    }
    drop(listening);
    listeners.report(&notification);
    let heard = heard.0.lock().expect("no panic").clone();
    assert!(heard.len() < 100, "{}", heard.len());
    assert_eq!((heard[0].as_str(), heard[heard.len() - 1].as_str()), ("0 %\n", "100 %\n"));
}
