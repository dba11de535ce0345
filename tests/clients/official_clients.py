"""Streams the same answer with every official client and checks what it understood."""

import json
import sys

import anthropic
import openai

TEXT = "Grüße "
ARGUMENTS = [{"a": 1}, {"a": 2}]


def chat(base):
    client = openai.OpenAI(api_key="k", base_url=f"{base}/v1")
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    stream = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hi"}], tools=[tool], stream=True,
        stream_options={"include_usage": True})
    text, calls, reason, usage = "", {}, None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or []:
                calls[call.index] = calls.get(call.index, "") + (call.function.arguments or "")
    return text, [json.loads(calls[index]) for index in sorted(calls)], reason == "tool_calls" and usage.total_tokens == 110


def responses(base):
    client = openai.OpenAI(api_key="k", base_url=f"{base}/v1")
    content = [{"type": "input_text", "text": "hi"}]
    with client.responses.stream(model="m", store=False,
                                 input=[{"type": "message", "role": "user", "content": content}]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    calls = [json.loads(item.arguments) for item in final.output if item.type == "function_call"]
    return final.output_text, calls, final.status == "completed" and final.usage.total_tokens == 110


def messages(base):
    client = anthropic.Anthropic(api_key="k", base_url=base)
    with client.messages.stream(model="m", max_tokens=99,
                                messages=[{"role": "user", "content": "hi"}]) as stream:
        final = stream.get_final_message()
    text = "".join(block.text for block in final.content if block.type == "text")
    calls = [block.input for block in final.content if block.type == "tool_use"]
    signed = any(block.type == "thinking" and block.signature == "c2ln" for block in final.content)
    return text, calls, final.stop_reason == "tool_use" and signed


def main():
    failed = False
    for name, client in [("chat", chat), ("responses", responses), ("messages", messages)]:
        text, calls, complete = client(sys.argv[1])
        good = text == TEXT and calls == ARGUMENTS and complete
        failed |= not good
        print(f"official-clients: {name}: {'ok' if good else (text, calls, complete)}")
    sys.exit(1 if failed else 0)


main()
