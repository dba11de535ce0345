//! One request to the service: attempts, backoff, and the response stream.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parallax_http::reqwest::header::HeaderMap;
use parallax_http::reqwest::{Response, header};
use parallax_http::{Failure, FailureKind};
use parallax_protocol::content::Content;
use parallax_protocol::excerpt::one_line;
use parallax_protocol::model::{
    Answer, Chunk, FinishReason, ModelError, Request, Retry, StreamEvent,
};
use parallax_protocol::{BoxStream, CancellationToken};

use crate::backoff::{CAPACITY_ATTEMPTS, MAX_ATTEMPTS, parse_retry_after};
use crate::client::{Transport, TransportOptions};
use crate::continuation::{ChunkAction, Continuation};
use crate::error_class::{CAPACITY, ErrorResponse};
use crate::error_payload::ErrorPayload;
use crate::failed_attempt::{FailedAttempt, FailureClassifier, RetryPlan, TIMEOUT, UNREACHABLE};
use crate::paused_turn::{MAX_PAUSES, PausedTurn};
use crate::response_reader::{ReadFailure, ResponseReader};
use crate::shared_pace::KnownLimits;
use crate::silence::{self, StallSignal};
use crate::tapped_request::TappedRequest;
use crate::wire::{ImmediateRetry, ResponseMode, SendAttempt, Wire};

/// Maximum bytes of an error response.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// Attempts and the wait between them for a server on this machine that may be another service.
const BRIEF_ATTEMPTS: u32 = 2;
const BRIEF_WAIT: Duration = Duration::from_millis(300);

/// How often a wire may change a request that the service rejected.
const RECOVERIES: u32 = 3;

enum CallPhase {
    Attempt(u32),
    Waiting(u32, Duration),
    Reading(Box<ResponseReader>),
    Ended,
}

/// A request in progress.
pub struct HttpCall {
    wire: Arc<dyn Wire>,
    transport: Arc<Transport>,
    request: Request,
    delivery: ResponseMode,
    attempts: u32,
    recoveries: u32,
    continuation: Continuation,
    pause: PausedTurn,
    phase: CallPhase,
    observed_request: TappedRequest,
    /// Those of the shared pace when the request was sent.
    known_limits: KnownLimits,
    silence: Option<StallSignal>,
}

impl HttpCall {
    /// `attempts` is the limit if the request sets none.
    pub fn new(
        wire: Arc<dyn Wire>,
        transport: Arc<Transport>,
        request: Request,
        delivery: ResponseMode,
        attempts: u32,
    ) -> Self {
        let attempts = request.max_attempts.unwrap_or(attempts).clamp(1, MAX_ATTEMPTS);
        let phase = CallPhase::Attempt(1);
        let continuation = Continuation::from_token(request.continuation.clone());
        let (recoveries, pause) = (0, PausedTurn::default());
        let observed_request = TappedRequest::new(transport.options.tap.clone());
        Self {
            wire,
            transport,
            request,
            delivery,
            attempts,
            recoveries,
            continuation,
            pause,
            phase,
            observed_request,
            known_limits: KnownLimits::default(),
            silence: None,
        }
    }

    /// Returns the response as a stream. Dropping it or cancelling the token ends it at once.
    pub fn into_stream(
        mut self,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        let contact = Arc::clone(&self.transport.contact);
        let notice = self.transport.options.silence_notice.filter(|_| !contact.is_known());
        let notices = notice.map(|after| {
            let (signal, receiver) = StallSignal::new();
            self.silence = Some(signal);
            silence::notices(receiver, after, contact, self.silence_text())
        });
        let events =
            futures_util::stream::unfold((self, cancel), |(mut call, cancel)| async move {
                let next = call.next(&cancel).await?;
                Some((next, (call, cancel)))
            });
        match notices {
            Some(notices) => Box::pin(futures_util::stream::select(events, notices)),
            None => Box::pin(events),
        }
    }

    fn silence_text(&self) -> String {
        format!(
            "{} has not answered yet; it may be loading the model. Parallax waits for up to {} s",
            self.failures().host(),
            self.transport.options.idle_timeout.as_secs()
        )
    }

    fn set_waiting(&self, is_waiting: bool) {
        if let Some(silence) = &self.silence {
            silence.set_waiting(is_waiting);
        }
    }

    /// Returns the whole response. A failure in the middle of it also costs an attempt.
    pub async fn collect(mut self, cancel: &CancellationToken) -> Result<Answer, ModelError> {
        let whole = async {
            let (mut attempt, mut pauses) = (1, 0);
            let mut total = Answer::default();
            loop {
                let failed = match self.read_whole(attempt).await {
                    Ok(answer) => {
                        let finish = answer.metadata.finish.as_ref();
                        let is_paused =
                            finish.is_some_and(|finish| finish.reason == FinishReason::Paused);
                        if is_paused {
                            self.resume_after(&answer);
                            self.pause.count += 1;
                        }
                        total.add(answer);
                        if !is_paused || pauses == MAX_PAUSES {
                            return Ok(total);
                        }
                        (attempt, pauses) = (1, pauses + 1);
                        continue;
                    }
                    Err(failed) => failed,
                };
                match &failed.retry {
                    Some(retry) if attempt < self.max_attempts(retry) => {
                        let backoff = self.transport.options.backoff;
                        let wait = match retry.is_brief {
                            true => BRIEF_WAIT,
                            false => backoff.wait(attempt, retry.delay, retry.is_guess),
                        };
                        self.observed_request.retry(&self.retry(
                            attempt,
                            self.attempts,
                            wait,
                            retry,
                        ));
                        tokio::time::sleep(wait).await;
                        attempt += 1;
                    }
                    _ if self.recover(&failed).is_some() => {}
                    _ => return Err(failed.error),
                }
            }
        };
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ModelError::Cancelled),
            result = whole => result,
        };
        self.observed_request.report_end(result.as_ref().err(), &self.transport);
        result
    }

    fn failures(&self) -> FailureClassifier<'_> {
        FailureClassifier {
            wire: &*self.wire,
            transport: &self.transport,
            model: &self.request.model,
            is_continuation: self.continuation.token().is_some(),
        }
    }

    /// Called when the provider paused the turn: the next request continues it.
    fn resume_after(&mut self, answer: &Answer) {
        let content = Content::model(answer.parts.clone()).seal_for(&self.request.model);
        self.request.contents.push(content);
    }

    async fn read_whole(&mut self, attempt: u32) -> Result<Answer, FailedAttempt> {
        if attempt == 1
            && let Some(questions) = self.wire.before_request(&self.request)
        {
            self.transport.record_question(questions.await);
        }
        let mut reader = self.open(attempt).await?;
        let mut answer = Answer::default();
        while let Some(chunk) =
            reader.next().await.map_err(|failure| self.failures().before_first_chunk(failure))?
        {
            answer.push(chunk);
        }
        Ok(answer)
    }

    async fn next(
        &mut self,
        cancel: &CancellationToken,
    ) -> Option<Result<StreamEvent, ModelError>> {
        if matches!(self.phase, CallPhase::Ended) {
            return None;
        }
        let next = tokio::select! {
            biased;
            () = cancel.cancelled() => Some(Err(ModelError::Cancelled)),
            next = self.step() => next,
        };
        if !matches!(next, Some(Ok(_))) {
            // Releases the connection.
            self.phase = CallPhase::Ended;
            let error = next.as_ref().and_then(|next| next.as_ref().err());
            self.observed_request.report_end(error, &self.transport);
        }
        next
    }

    async fn step(&mut self) -> Option<Result<StreamEvent, ModelError>> {
        loop {
            match &mut self.phase {
                CallPhase::Ended => return None,
                CallPhase::Waiting(next, wait) => {
                    let next = *next;
                    tokio::time::sleep(*wait).await;
                    self.phase = CallPhase::Attempt(next);
                }
                CallPhase::Attempt(attempt) => {
                    let attempt = *attempt;
                    self.set_waiting(true);
                    if attempt == 1 {
                        if let Some(questions) = self.wire.before_request(&self.request) {
                            self.transport.record_question(questions.await);
                        }
                        if let Some(notice) = self.wire.notice(&self.request) {
                            self.set_waiting(false);
                            return Some(Ok(StreamEvent::Notice(notice)));
                        }
                    }
                    let first = self.receive_first_chunk(attempt).await;
                    self.set_waiting(false);
                    match first {
                        Ok(None) if self.continuation.token().is_some() => {
                            return Some(self.resume_or_fail(ReadFailure::Unfinished));
                        }
                        Ok(None) => return None,
                        Ok(Some((chunk, reader))) => {
                            self.phase = CallPhase::Reading(reader);
                            if let Some(event) = self.track(chunk) {
                                return Some(event);
                            }
                        }
                        Err(failed) => match self.recover(&failed) {
                            Some(ImmediateRetry { notice: Some(notice) }) => {
                                return Some(Ok(StreamEvent::Notice(notice)));
                            }
                            Some(ImmediateRetry { notice: None }) => {}
                            None => return Some(self.after_failure(attempt, failed)),
                        },
                    }
                }
                CallPhase::Reading(reader) => match reader.next().await {
                    Ok(None) if self.continuation.advance() => {
                        self.phase = CallPhase::Attempt(1);
                        return Some(Ok(StreamEvent::NextHop));
                    }
                    Ok(None) if self.pause.is_paused => self.continue_paused_turn(),
                    Ok(None) if self.continuation.is_cut() => {
                        return Some(self.resume_or_fail(ReadFailure::Unfinished));
                    }
                    Ok(None) => {
                        if let Some(chunk) = self.continuation.take_finish() {
                            return Some(Ok(StreamEvent::Chunk(Box::new(chunk))));
                        }
                        self.phase = CallPhase::Ended;
                        if let Some(questions) = self.wire.after_response(&self.request) {
                            questions.await;
                        }
                        return Some(Ok(StreamEvent::Notice(self.wire.notice(&self.request)?)));
                    }
                    Ok(Some(chunk)) => {
                        if let Some(event) = self.track(chunk) {
                            return Some(event);
                        }
                    }
                    Err(failure) => return Some(self.resume_or_fail(failure)),
                },
            }
        }
    }

    fn track(&mut self, mut chunk: Chunk) -> Option<Result<StreamEvent, ModelError>> {
        if self.wire.pauses_turns() {
            self.pause.track(&mut chunk);
        }
        match self.continuation.track(chunk) {
            ChunkAction::Emit(chunk) => Some(Ok(StreamEvent::Chunk(chunk))),
            ChunkAction::Skip => None,
            ChunkAction::Incompatible(reason) => Some(Err(ModelError::Broken {
                status: None,
                message: format!("the answer cannot be continued: {reason}"),
                retryable: true,
                delay: None,
            })),
        }
    }

    /// Called when the provider paused the turn: the next request continues it.
    fn continue_paused_turn(&mut self) {
        let parts = std::mem::take(&mut self.pause.parts);
        let previous_usage = Some(self.pause.total(self.pause.usage));
        self.pause =
            PausedTurn { count: self.pause.count + 1, previous_usage, ..PausedTurn::default() };
        self.resume_after(&Answer { parts, ..Answer::default() });
        self.phase = CallPhase::Attempt(1);
    }

    /// Resumes a broken response from its newest checkpoint, if it has one.
    fn resume_or_fail(&mut self, failure: ReadFailure) -> Result<StreamEvent, ModelError> {
        let (class, retryable) = self.failures().classify_failure(&failure);
        if !retryable || !self.continuation.resume() {
            let mut error = self.failures().after_first_chunk(failure);
            if self.continuation.is_exhausted()
                && let ModelError::Broken { retryable, .. } = &mut error
            {
                *retryable = false;
            }
            return Err(error);
        }
        let attempt = self.continuation.reconnections();
        let wait = self.transport.options.backoff.short_wait(attempt, None);
        self.phase = CallPhase::Waiting(1, wait);
        let plan = RetryPlan {
            delay: None,
            is_guess: false,
            is_brief: false,
            class,
            status: None,
            message: format!("{}; continuing the answer", self.failures().describe(&failure)),
        };
        let retry = self.retry(attempt, self.attempts, wait, &plan);
        self.observed_request.retry(&retry);
        Ok(StreamEvent::Retry(retry))
    }

    /// Lets the wire change a request that the service rejected.
    fn recover(&mut self, failed: &FailedAttempt) -> Option<ImmediateRetry> {
        let response = failed.rejected.as_deref()?;
        if self.recoveries >= RECOVERIES {
            return None;
        }
        self.recoveries += 1;
        self.wire.recover(response, &mut self.request)
    }

    /// Whether other processes of the batch hold the request back after a rate limit, for which the
    /// service states no time.
    fn is_paced(&self, retry: &RetryPlan) -> bool {
        self.transport.options.shared_pace.is_some()
            && retry.status == Some(429)
            && retry.delay.is_none()
    }

    fn after_failure(
        &mut self,
        attempt: u32,
        failed: FailedAttempt,
    ) -> Result<StreamEvent, ModelError> {
        let Some(retry) = failed.retry else { return Err(failed.error) };
        let short = self.request.has_fallback && retry.class == CAPACITY;
        let max_attempts = match short {
            true => self.attempts.min(CAPACITY_ATTEMPTS),
            false => self.max_attempts(&retry),
        };
        // An answer of the service is retried as usual; a broken connection has no response.
        let max_attempts = match self.continuation.attempts_left() {
            Some(left) if retry.status.is_none() => max_attempts.min(left),
            _ => max_attempts,
        };
        if attempt >= max_attempts {
            return Err(failed.error);
        }
        let backoff = self.transport.options.backoff;
        let wait = match short {
            _ if retry.is_brief => BRIEF_WAIT,
            true => backoff.short_wait(attempt, retry.delay),
            false if self.is_paced(&retry) => backoff.paced_wait(attempt),
            false => backoff.wait(attempt, retry.delay, retry.is_guess),
        };
        self.phase = CallPhase::Waiting(attempt + 1, wait);
        let retry = self.retry(attempt, max_attempts, wait, &retry);
        self.observed_request.retry(&retry);
        Ok(StreamEvent::Retry(retry))
    }

    fn retry(&self, attempt: u32, max_attempts: u32, wait: Duration, plan: &RetryPlan) -> Retry {
        Retry {
            attempt,
            max_attempts,
            delay_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            class: plan.class.to_owned(),
            status: plan.status,
            message: plan.message.clone(),
            model: self.request.model.clone(),
        }
    }

    /// Returns the maximum number of attempts: if connecting fails, waiting longer rarely helps.
    fn max_attempts(&self, plan: &RetryPlan) -> u32 {
        let few = self.transport.options.connect_attempts;
        let is_local = few == 1;
        match plan.class {
            _ if plan.is_brief => self.attempts.min(BRIEF_ATTEMPTS),
            // A server that answered before may be starting again.
            UNREACHABLE if is_local && self.transport.contact.is_known() => {
                self.attempts.min(TransportOptions::default().connect_attempts)
            }
            // No service runs there, whatever its wire: it must be reported soon.
            UNREACHABLE if self.transport.is_absent_local_server() => 1,
            UNREACHABLE => self.attempts.min(few),
            // A server on this machine that is silent until the time limit stays silent.
            TIMEOUT if is_local => self.attempts.min(few),
            _ => self.attempts,
        }
    }

    /// Makes one attempt up to its first chunk; `None` when the response is empty.
    async fn receive_first_chunk(
        &mut self,
        attempt: u32,
    ) -> Result<Option<(Chunk, Box<ResponseReader>)>, FailedAttempt> {
        let mut reader = self.open(attempt).await?;
        let chunk =
            reader.next().await.map_err(|failure| self.failures().before_first_chunk(failure))?;
        Ok(chunk.map(|chunk| (chunk, Box::new(reader))))
    }

    /// Sends the request and reads the response headers.
    async fn open(&mut self, attempt: u32) -> Result<ResponseReader, FailedAttempt> {
        // A response that is not streamed is silent until it is complete.
        let idle = match self.delivery {
            ResponseMode::Stream => self.transport.options.idle_timeout,
            ResponseMode::Whole => self.transport.options.idle_timeout.saturating_mul(2),
        };
        let mut response = self.send(attempt, idle).await?;
        let wire = Arc::clone(&self.wire);
        if response.0.status().as_u16() == 401
            && let Some(rejected) = wire.reject_authorization(&response.1)
            && rejected.await
        {
            response = self.send(attempt, idle).await?;
        }
        let (response, _) = response;
        if response.status().is_success() {
            if let Some(pace) = &self.transport.options.shared_pace {
                pace.record_accepted(self.known_limits).await;
            }
            let decoder = self.wire.decoder(&self.request, self.delivery);
            return Ok(ResponseReader::new(
                response,
                decoder,
                self.delivery,
                idle,
                self.observed_request.chunks(),
            ));
        }
        Err(self.read_error_response(response, idle).await)
    }

    /// Sends the request; returns the response headers and the fetched headers it was sent with.
    async fn send(
        &mut self,
        attempt: u32,
        idle: Duration,
    ) -> Result<(Response, HeaderMap), FailedAttempt> {
        let authorization = match self.wire.authorize() {
            Some(headers) => headers.await.map_err(FailedAttempt::permanent)?,
            None => HeaderMap::new(),
        };
        let sent = self.wire.http_request(
            &self.request,
            self.delivery,
            SendAttempt {
                number: attempt,
                continuation: self.continuation.token(),
                resumes_pause: self.pause.count > 0,
            },
        );
        let mut sent = sent.map_err(FailedAttempt::permanent)?;
        sent.headers.extend(authorization.clone());
        let client = self.transport.client().await.map_err(FailedAttempt::permanent)?;
        if let Some(pace) = &self.transport.options.shared_pace {
            self.known_limits = pace.wait().await;
        }
        self.observed_request.report_request(&self.request, &sent, &self.transport);
        let headers = self.observed_request.is_active().then(|| sent.headers.clone());
        let sent = client.post(sent.url).headers(sent.headers).body(sent.body).send();
        match tokio::time::timeout(idle, sent).await {
            Err(_) => Err(self.failures().before_first_chunk(ReadFailure::Silent(idle))),
            Ok(Err(error)) => {
                let failure = Failure::from(error);
                if failure.kind == FailureKind::Refused {
                    self.transport.record_refusal(self.wire.base()).await;
                }
                Err(self.failures().before_first_chunk(ReadFailure::Network(failure)))
            }
            Ok(Ok(response)) => {
                self.transport.contact.note();
                if let Some(headers) = headers {
                    self.observed_request.report_response(&response, &headers, &self.transport);
                }
                Ok((response, authorization))
            }
        }
    }

    /// Reads an error response.
    async fn read_error_response(&self, mut response: Response, idle: Duration) -> FailedAttempt {
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let retry_after =
            header(header::RETRY_AFTER).and_then(|text| parse_retry_after(text, SystemTime::now()));
        let location = header(header::LOCATION).map(str::to_owned);
        let mut body = Vec::new();
        // A partial body is enough.
        while let Ok(Ok(Some(bytes))) = tokio::time::timeout(idle, response.chunk()).await {
            let room = MAX_ERROR_BYTES.saturating_sub(body.len());
            body.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
            if body.len() >= MAX_ERROR_BYTES {
                break;
            }
        }
        let mut payload = ErrorPayload::from_body(&body);
        if let Some(location) = location.filter(|_| status.is_redirection()) {
            payload.message = format!(
                "{} redirects to {}; if this is expected, set the base URL to it",
                self.failures().host(),
                one_line(&location)
            );
        }
        let failed = self.failures().evaluate(ErrorResponse {
            status: status.as_u16(),
            payload,
            retry_after,
        });
        if let (429, Some(retry), Some(pace)) =
            (status.as_u16(), &failed.retry, &self.transport.options.shared_pace)
        {
            let backoff = self.transport.options.backoff;
            let delay = backoff.wait(1, retry.delay, retry.is_guess);
            let is_stated = retry.delay.is_some() && !retry.is_guess;
            pace.record_rate_limit(delay, is_stated, self.known_limits).await;
        }
        failed
    }
}

impl Drop for HttpCall {
    fn drop(&mut self) {
        // Nothing waits for the rest of the response.
        self.observed_request.report_end(Some(&ModelError::Cancelled), &self.transport);
    }
}
