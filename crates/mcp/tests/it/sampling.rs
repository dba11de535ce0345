//! Sampling requests from a server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use parallax_mcp::{Sampling, UserRequest, UserRequestHandler, UserResponse};
use parallax_protocol::content::Part;
use parallax_protocol::model::{
    Answer as Reply, Chunk, Finish, FinishReason, Limits, Model, ModelCatalog, ModelError, Request,
    StreamEvent, ToolSet, Usage,
};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken};
use serde_json::{Value, json};

use crate::support::World;

/// Answers "blue", using 60 tokens.
#[derive(Default)]
struct FixedAnswerModel(Mutex<Vec<Request>>);

impl Model for FixedAnswerModel {
    fn stream(
        &self,
        _request: Request,
        _cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        Box::pin(futures_util::stream::empty())
    }

    fn generate(
        &self,
        request: Request,
        _cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Reply, ModelError>> {
        self.0.lock().expect("no panic").push(request);
        let usage = Usage { total: 60, ..Usage::default() };
        let finish = Some(Finish::new(FinishReason::Stop, "STOP"));
        let metadata = Chunk { usage: Some(usage), finish, ..Chunk::default() };
        Box::pin(async move { Ok(Reply { parts: vec![Part::text("blue")], metadata }) })
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        self
    }
}

impl ModelCatalog for FixedAnswerModel {
    fn limits(&self, _model: &str) -> Limits {
        Limits {
            context: 1_000,
            output: 1_000,
            multimodal_tool_results: false,
            shared_window: false,
        }
    }

    fn resolve(&self, name: &str) -> String {
        name.to_owned()
    }
}

/// Gives these responses one after the other, and records the requests.
#[derive(Default)]
struct ScriptedUser {
    answers: Mutex<VecDeque<UserResponse>>,
    requests: Mutex<Vec<UserRequest>>,
}

impl UserRequestHandler for ScriptedUser {
    fn ask(&self, _server: &str, question: UserRequest) -> BoxFuture<'static, UserResponse> {
        self.requests.lock().expect("no panic").push(question);
        let answer =
            self.answers.lock().expect("no panic").pop_front().unwrap_or(UserResponse::Cancel);
        Box::pin(async move { answer })
    }
}

struct SamplingTest {
    world: World,
    model: Arc<FixedAnswerModel>,
    user: Arc<ScriptedUser>,
}

impl SamplingTest {
    async fn with_answers(answers: Vec<UserResponse>, tokens: u64) -> Self {
        let model = Arc::new(FixedAnswerModel::default());
        let user = Arc::new(ScriptedUser {
            answers: Mutex::new(answers.into()),
            ..ScriptedUser::default()
        });
        let sampling = Sampling {
            model: Arc::clone(&model) as Arc<dyn Model>,
            main: Arc::new(|| "the-model".to_owned()),
            tokens,
        };
        let asker = Arc::clone(&user) as Arc<dyn UserRequestHandler>;
        let world = World::with_model("sample", Some(asker), Some(sampling));
        world.servers.connect("s").await.expect("connected");
        Self { world, model, user }
    }

    /// Returns what the server received as the answer.
    async fn sample(&self, args: Value) -> String {
        self.world.call("mcp_s_sample", args).await.for_model.output
    }

    fn request_count(&self) -> usize {
        self.user.requests.lock().expect("no panic").len()
    }

    fn requests(&self) -> usize {
        self.model.0.lock().expect("no panic").len()
    }
}

fn accept_response() -> UserResponse {
    UserResponse::Accept(parallax_protocol::Object::new())
}

#[tokio::test(flavor = "multi_thread")]
async fn sampling_is_answered_after_approval() {
    let scene =
        SamplingTest::with_answers(vec![accept_response(), UserResponse::Decline], 10_000).await;
    let result = scene.sample(json!({})).await;
    for expected in ["\"role\": \"assistant\"", "\"text\": \"blue\"", "\"stopReason\": \"endTurn\""]
    {
        assert!(result.contains(expected), "{expected}: {result}");
    }
    assert!(result.contains("\"model\": \"the-model\""), "{result}");
    let asked = scene.user.requests.lock().expect("no panic").first().cloned();
    let Some(UserRequest::Sample { system, prompt, tokens, remaining_tokens }) = asked else {
        unreachable!("another question")
    };
    assert_eq!((system.as_str(), prompt.as_str()), ("Be brief.", "Which colour?"));
    assert_eq!((tokens, remaining_tokens), (100, 10_000));
    {
        let requests = scene.model.0.lock().expect("no panic");
        let request = requests.first().expect("a request");
        assert_eq!((request.model.as_str(), &*request.system), ("the-model", "Be brief."));
        assert_eq!(request.contents.len(), 1, "nothing of the session goes with it");
        assert!(matches!(request.tools, ToolSet::None));
        assert_eq!(request.generation["maxOutputTokens"], 100);
        assert_eq!(request.generation["temperature"], 0.5);
    }
    // The approval was for one request: the next one needs approval again and is rejected.
    let result = scene.sample(json!({})).await;
    assert!(result.contains("the user rejected") && result.contains("-1"), "{result}");
    assert_eq!((scene.request_count(), scene.requests()), (2, 1));
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn always_and_never_apply_to_the_session() {
    for (answer, requests) in [(UserResponse::Always, 3), (UserResponse::Never, 0)] {
        let scene = SamplingTest::with_answers(vec![answer], 10_000).await;
        for _ in 0..3 {
            let result = scene.sample(json!({})).await;
            assert_eq!(result.contains("blue"), requests > 0, "{result}");
        }
        assert_eq!((scene.request_count(), scene.requests()), (1, requests));
        scene.world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sampling_stops_at_the_token_budget_of_the_server() {
    let scene = SamplingTest::with_answers(vec![UserResponse::Always], 100).await;
    // A long answer is limited to the remaining tokens.
    assert!(scene.sample(json!({"most": 5_000})).await.contains("blue"));
    let longest = |at: usize| {
        let requests = scene.model.0.lock().expect("no panic");
        requests.get(at).map(|request| request.generation["maxOutputTokens"].clone())
    };
    assert_eq!(longest(0), Some(json!(95)));
    assert!(scene.sample(json!({})).await.contains("blue"));
    assert_eq!(longest(1), Some(json!(35)));
    let result = scene.sample(json!({})).await;
    assert!(result.contains("used up (0 of 100 tokens are left"), "{result}");
    assert_eq!(scene.requests(), 2);
    scene.world.end().await;
    // A prompt that exceeds the budget is not sent, and the user is not asked.
    let scene = SamplingTest::with_answers(vec![UserResponse::Always], 100).await;
    let result = scene.sample(json!({"text": "x".repeat(1_000)})).await;
    assert!(result.contains("the prompt alone needs about 252"), "{result}");
    assert_eq!((scene.request_count(), scene.requests()), (0, 0));
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sampling_accepts_images_and_rejects_tools() {
    let scene = SamplingTest::with_answers(vec![UserResponse::Always], 10_000).await;
    let picture = json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"});
    assert!(scene.sample(json!({"content": picture})).await.contains("blue"));
    let sent = scene.model.0.lock().expect("no panic")[0].contents[0].json().to_owned();
    assert!(sent.contains("inlineData") && sent.contains("iVBORw0KGgo="), "{sent}");
    let call = json!({"type": "tool_use", "id": "1", "name": "x", "input": {}});
    let result = scene.sample(json!({"content": call})).await;
    assert!(result.contains("only text, images, and audio"), "{result}");
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sampling_without_a_user_is_not_offered_and_is_rejected() {
    let world = World::started("sample").await;
    let result = world.call("mcp_s_sample", json!({})).await.for_model.output;
    assert!(result.contains("no user is present"), "{result}");
    let report = std::fs::read_to_string(world.folder.path().join("log")).expect("the log");
    let hello = report.lines().next().expect("a line");
    assert!(hello.contains("\"initialize\"") && !hello.contains("sampling"), "{hello}");
    world.end().await;
    let scene = SamplingTest::with_answers(Vec::new(), 10_000).await;
    let report = std::fs::read_to_string(scene.world.folder.path().join("log")).expect("the log");
    assert!(report.lines().next().expect("a line").contains("\"sampling\": {}"), "{report}");
    scene.world.end().await;
}
