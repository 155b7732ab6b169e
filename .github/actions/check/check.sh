#!/usr/bin/env bash
# Inputs of the action, as variables -> options of `otelctx check`; its verdicts -> outputs, a job summary, an annotation.
# Nothing of an input is ever run: it is only ever an argument.
set -euo pipefail
set -f # a * in an input is otelctx's to read

options=()

value() { # OPTION VALUE
  if [ -n "$2" ]; then options+=("$1" "$2"); fi
}

switch() { # NAME VALUE ON OFF
  case "$2" in
    true) options+=("$3") ;;
    false) options+=("$4") ;;
    "") ;;
    *)
      echo "::error::$1 is true or false, not \"$2\""
      exit 2
      ;;
  esac
}

value --max-context "$MAX_CONTEXT"
value --max-percent "$MAX_PERCENT"
value --max-growth "$MAX_GROWTH"
value --max-growth-percent "$MAX_GROWTH_PERCENT"
value --min-hit-ratio "$MIN_HIT_RATIO"
value --max-waste "$MAX_WASTE"
value --max-waste-usd "$MAX_WASTE_USD"
value --junit "$JUNIT"
switch stable-prefix "$STABLE_PREFIX" --stable-prefix --allow-unstable-prefix
switch no-eviction "$NO_EVICTION" --no-eviction --allow-eviction
switch no-dead-schemas "$NO_DEAD_SCHEMAS" --no-dead-schemas --allow-dead-schemas
switch strict "$STRICT" --strict --lenient
read -r -d '' -a more <<<"$ARGS" || true
read -r -d '' -a paths <<<"$PATHS" || true

report=$(mktemp "${RUNNER_TEMP:-/tmp}/otelctx-check.XXXXXX")
status=0
said=$(otelctx check --json "$report" ${options[@]+"${options[@]}"} ${more[@]+"${more[@]}"} \
  -- ${paths[@]+"${paths[@]}"} 2>&1) || status=$?
printf '%s\n' "$said"

{
  if [ "$status" = 0 ]; then echo "passed=true"; else echo "passed=false"; fi
  echo "exit-code=$status"
  echo "report=$report"
} >>"$GITHUB_OUTPUT"

# A fence that is longer than any in it: names out of telemetry cannot end it.
fence='```'
while [[ "$said" == *"$fence"* ]]; do fence="$fence\`"; done
printf '### Context window: %s\n\n%stext\n%s\n%s\n' \
  "$([ "$status" = 0 ] && echo passed || echo failed)" "$fence" "$said" "$fence" >>"$GITHUB_STEP_SUMMARY"

case "$status" in
  0) ;;
  1) echo "::error::otelctx check: a bound does not hold" ;;
  *) echo "::error::otelctx check: unusable input or arguments" ;;
esac
exit "$status"
