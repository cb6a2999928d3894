// SPDX-License-Identifier: Apache-2.0
// Who descends from whom, made sound: parents that are not listed, and shards that are their own ancestors, are cut.

/** Parents and children of each shard as indexes, and an order in which every parent stands before its children. */
export function descent(shards) {
  const indexOf = new Map(shards.map((shard, index) => [shard.shard_id, index]));
  const parents = shards.map((shard, index) => parentsOf(shard, index, shards.length, indexOf));
  const children = shards.map(() => []);
  parents.forEach((list, child) => list.forEach((parent) => children[parent].push(child)));
  const waits = parents.map((list) => list.length);
  const placed = shards.map(() => false);
  const order = [];
  const ready = shards.map((_, index) => index).filter((index) => !waits[index]);
  let next = 0;
  let oldest = 0;
  while (order.length < shards.length) {
    if (next === ready.length) {
      // What is left stands on a circle: the first of it loses those parents that are not placed yet.
      while (placed[oldest]) oldest += 1;
      for (const parent of parents[oldest]) {
        if (!placed[parent]) children[parent] = children[parent].filter((child) => child !== oldest);
      }
      parents[oldest] = parents[oldest].filter((parent) => placed[parent]);
      waits[oldest] = 0;
      ready.push(oldest);
    }
    const index = ready[next];
    next += 1;
    placed[index] = true;
    order.push(index);
    for (const child of children[index]) {
      waits[child] -= 1;
      if (!waits[child]) ready.push(child);
    }
  }
  return { parents, children, order };
}

/** How many ancestors stand between a shard and the oldest one, by the longest way. */
export function generationsOf({ parents, order }) {
  const generation = parents.map(() => 0);
  for (const index of order) {
    for (const parent of parents[index]) generation[index] = Math.max(generation[index], generation[parent] + 1);
  }
  return generation;
}

function parentsOf(shard, index, length, indexOf) {
  const named = Array.isArray(shard.parents) ? shard.parents : [];
  const found = named.map((parent) => (Number.isInteger(parent) ? parent : indexOf.get(parent)));
  return [...new Set(found)].filter((parent) => parent >= 0 && parent < length && parent !== index);
}
