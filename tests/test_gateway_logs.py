"""Log records in the gateway: content may stand in those with a name, and the others cost next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from otel_ctx import dialects
from otel_ctx.inputs.otlp_protobuf import is_event, log_of
from otel_ctx.live.gateway.bodies import message_of_json
from otel_ctx.live.gateway.signals import LOGS
from tests.conftest import CorpusCase
from tests.gateway_rig import GatewayRig, HttpDownstream, chat, ours, pairs, request

CASES = sorted(path.parent.name for path in (Path(__file__).parent / "corpus").glob("*/logs.jsonl.gz"))


@pytest.mark.parametrize("name", CASES)
def test_a_record_without_a_name_holds_no_content(
    name: str, corpus_case: Callable[[str], CorpusCase]
) -> None:
    """Of every dialect there is: nothing is lost by not reading them."""
    told = nameless = 0
    for sent in corpus_case(name).logs:
        message = message_of_json(LOGS, orjson.dumps(sent))
        for group in message.resource_logs:
            for scope in group.scope_logs:
                for record in scope.log_records:
                    read = log_of(record, scope.scope.name, scope.scope.version, {})
                    assert is_event(record) == bool(read.name)
                    if dialects.read_log(read) is not None:
                        told += 1
                        assert is_event(record)
                    record.event_name = ""
                    kept = [a for a in record.attributes if a.key not in ("event.name", "event_name")]
                    del record.attributes[:]
                    record.attributes.extend(kept)
                    assert not is_event(record)
                    bare = log_of(record, scope.scope.name, scope.scope.version, {})
                    nameless += dialects.read_log(bare) is not None
    assert told > 0 or name == "mastra-chat"  # its records are log lines
    assert nameless == 0


def test_log_lines_go_on_as_they_came_and_take_no_place_among_the_tenants() -> None:
    lines = ExportLogsServiceRequest()
    record = lines.resource_logs.add().scope_logs.add().log_records.add(severity_text="INFO")
    record.body.string_value = "GET /orders"
    record.attributes.extend(pairs({"http.route": "/orders"}))
    body = lines.SerializeToString()
    with HttpDownstream() as down, GatewayRig(down.url, tenant_header="x-tenant", max_tenants=1) as rig:
        assert rig.post("/v1/logs", body, x_tenant="lines").status_code == 200
        assert down.of("logs") == [body]
        assert rig.post("/v1/traces", request(chat(1, 0)), x_tenant="calls").status_code == 200
        assert ["otelctx.call.role" in ours(s) for s in down.spans()] == [True]
