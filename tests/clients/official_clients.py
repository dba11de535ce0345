"""Runs the same script with every official client: two tool calls, their results, and an error."""

import json
import sys

import anthropic
import ollama
import openai
from google import genai
from google.genai import errors, types

TEXT = "Grüße "
ARGUMENTS = [{"a": 1}, {"a": 2}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
MESSAGE = "no such thing"


def chat(base):
    client = openai.OpenAI(api_key="k", base_url=f"{base}/v1", max_retries=0)
    tool = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
    messages = [{"role": "user", "content": "hi"}]

    def ask():
        stream = client.chat.completions.create(
            model="m", messages=messages, tools=[tool], stream=True, stream_options={"include_usage": True})
        text, calls, reason, usage = "", {}, None, None
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reason = choice.finish_reason or reason
                for call in choice.delta.tool_calls or []:
                    known = calls.setdefault(call.index, {"id": call.id, "arguments": ""})
                    known["arguments"] += call.function.arguments or ""
        return text, [calls[index] for index in sorted(calls)], reason, usage

    text, calls, reason, usage = ask()
    messages.append({"role": "assistant", "content": text, "tool_calls": [
        {"id": call["id"], "type": "function", "function": {"name": "look", "arguments": call["arguments"]}}
        for call in calls]})
    messages.extend({"role": "tool", "tool_call_id": call["id"], "content": "seen"} for call in calls)
    after = ask()
    try:
        ask()
        error = None
    except openai.BadRequestError as raised:
        error = raised.message
    complete = reason == "tool_calls" and usage.total_tokens == 110 and after[2] == "stop"
    return text, [json.loads(call["arguments"]) for call in calls], after[0], error, complete


def responses(base):
    client = openai.OpenAI(api_key="k", base_url=f"{base}/v1", max_retries=0)
    tool = {"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}
    content = [{"type": "input_text", "text": "hi"}]
    items = [{"type": "message", "role": "user", "content": content}]

    def ask():
        with client.responses.stream(model="m", store=False, input=items, tools=[tool],
                                     include=["reasoning.encrypted_content"]) as stream:
            for _ in stream:
                pass
            return stream.get_final_response()

    first = ask()
    items.extend(item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output)
    calls = [item for item in first.output if item.type == "function_call"]
    items.extend({"type": "function_call_output", "call_id": call.call_id, "output": "seen"} for call in calls)
    after = ask()
    try:
        ask()
        error = None
    except openai.BadRequestError as raised:
        error = raised.message
    complete = first.status == after.status == "completed" and first.usage.total_tokens == 110
    return first.output_text, [json.loads(call.arguments) for call in calls], after.output_text, error, complete


def messages(base):
    client = anthropic.Anthropic(api_key="k", base_url=base, max_retries=0)
    tool = {"name": "look", "input_schema": SCHEMA}
    turns = [{"role": "user", "content": "hi"}]

    def ask():
        with client.messages.stream(model="m", max_tokens=99, messages=turns, tools=[tool]) as stream:
            return stream.get_final_message()

    first = ask()
    calls = [block for block in first.content if block.type == "tool_use"]
    turns.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]})
    turns.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call.id, "content": "seen"} for call in calls]})
    after = ask()
    try:
        ask()
        error = None
    except anthropic.BadRequestError as raised:
        error = raised.message
    signed = any(block.type == "thinking" and block.signature == "c2ln" for block in first.content)
    complete = first.stop_reason == "tool_use" and after.stop_reason == "end_turn" and signed
    text = [block.text for block in first.content if block.type == "text"]
    said = [block.text for block in after.content if block.type == "text"]
    return "".join(text), [call.input for call in calls], "".join(said), error, complete


def gemini(base):
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=base))
    look = types.FunctionDeclaration(name="look", description="Looks.", parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[look])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True))
    contents = [types.Content(role="user", parts=[types.Part(text="hi")])]

    def ask():
        parts, reason, usage = [], None, None
        for chunk in client.models.generate_content_stream(
                model="gemini-3.8-flash", contents=contents, config=config):
            usage = chunk.usage_metadata or usage
            candidate = chunk.candidates[0]
            reason = candidate.finish_reason or reason
            parts.extend((candidate.content and candidate.content.parts) or [])
        return parts, reason, usage

    def text(parts):
        return "".join(part.text for part in parts if part.text and not part.thought)

    parts, reason, usage = ask()
    calls = [part.function_call for part in parts if part.function_call]
    contents.append(types.Content(role="model", parts=parts))
    contents.append(types.Content(role="user", parts=[
        types.Part(function_response=types.FunctionResponse(
            id=call.id, name=call.name, response={"output": "seen"})) for call in calls]))
    after, _, _ = ask()
    try:
        ask()
        error = None
    except errors.ClientError as raised:
        error = raised.message
    signed = any(part.thought_signature for part in parts)
    complete = reason == types.FinishReason.STOP and usage.total_token_count == 110 and signed
    return text(parts), [call.args for call in calls], text(after), error, complete


def local(base):
    client = ollama.Client(host=base)
    tool = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}
    turns = [{"role": "user", "content": "hi"}]

    def ask():
        text, calls, last = "", [], None
        for chunk in client.chat(model="m", messages=turns, tools=[tool], stream=True):
            text += chunk.message.content or ""
            calls.extend(chunk.message.tool_calls or [])
            last = chunk
        return text, calls, last

    text, calls, last = ask()
    turns.append({"role": "assistant", "content": text, "tool_calls": [call.model_dump() for call in calls]})
    turns.extend({"role": "tool", "tool_name": "look", "content": "seen"} for _ in calls)
    after = ask()
    try:
        ask()
        error = None
    except ollama.ResponseError as raised:
        error = raised.error
    complete = last.done and last.done_reason == "stop" and last.prompt_eval_count == 100
    return text, [dict(call.function.arguments) for call in calls], after[0], error, complete


def main():
    failed = False
    clients = [("chat", chat), ("responses", responses), ("messages", messages), ("gemini", gemini), ("ollama", local)]
    for name, client in clients:
        text, calls, after, error, complete = client(sys.argv[1])
        good = text == TEXT and calls == ARGUMENTS and after == "done" and complete and MESSAGE in (error or "")
        failed |= not good
        print(f"official-clients: {name}: {'ok' if good else (text, calls, after, error, complete)}")
    sys.exit(1 if failed else 0)


main()
