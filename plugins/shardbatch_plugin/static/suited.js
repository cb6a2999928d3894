// SPDX-License-Identifier: Apache-2.0
// Which verbs suit what a person looks at, and what they are given at first. Pure functions.
const OF_STATE = {
  FROZEN: ["park", "set-aside", "drop", "release"],
  PARKED: ["unpark", "set-aside", "drop"],
  COMMITTED: ["replay"],
};

/** The names of the verbs that suit a batch. */
export function ofBatch(batch) {
  if (batch.set_aside === "kept") return ["replay", "drop"];
  if (batch.state === "VOID") return batch.possible_orphan ? ["drop"] : [];
  if (batch.retired_ms) return [];
  return OF_STATE[batch.state] || [];
}

/** The names of the verbs that suit a shard. */
export function ofShard(shard) {
  const names = [];
  if (shard.gap || shard.pending_gap) names.push("accept-gap");
  if (shard.owner && shard.state !== "completed") names.push("release");
  names.push("reset");
  return names;
}

/** What was filled in of a verb's arguments: texts without their margins, lists without empty entries. */
export function filled(verb, values) {
  const chosen = {};
  for (const argument of verb.arguments) {
    const value = values[argument.name];
    if (argument.switch) {
      if (value) chosen[argument.name] = true;
    } else if (argument.many) {
      const several = String(value || "")
        .split(/[\s,]+/)
        .filter(Boolean);
      if (several.length) chosen[argument.name] = several;
    } else if (value !== undefined && String(value).trim() !== "") {
      chosen[argument.name] = String(value).trim();
    }
  }
  return chosen;
}

/** The required arguments of a verb that are not filled in. */
export function missing(verb, chosen) {
  return verb.arguments.filter((argument) => argument.required && !(argument.name in chosen));
}

/** Help as the page has it, without what only the command line knows: `--yes`, exit codes, dashes before names. */
export const onPage = (help) =>
  (help || "")
    .split(/(?<=\.)\s+/)
    .filter((sentence) => !/--yes\b|Exit code/.test(sentence))
    .join(" ")
    .replace(" (may be repeated)", "")
    .replace(/--(?=[a-z])/g, "");

/** What an argument is called: its word on the command line, which the help of the others uses. */
export const nameOf = (argument) => argument.flag.replace(/^-+/, "").replaceAll("-", " ");
