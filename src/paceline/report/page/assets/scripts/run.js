// Reads what the page holds of a run. Times and numbers come as differences, which are short, and are added up here.

const MOST_ROWS = 4; // in a lane: calls that several threads make at the same time

function runningSums(differences) {
  let sum = 0;
  return Float64Array.from(differences, (difference) => {
    sum += difference;
    return sum;
  });
}

function readRank(columns) {
  const at = runningSums(columns.at);
  const size = at.length;
  const reach = new Float64Array(size); // when the last of the calls up to here has ended: grows, so it can be searched
  let furthest = -Infinity;
  let numRows = 1;
  for (let i = 0; i < size; i++) {
    furthest = Math.max(furthest, at[i] + columns.took[i]);
    reach[i] = furthest;
    numRows = Math.max(numRows, columns.row[i] + 1);
  }
  return {
    ...columns,
    at,
    number: runningSums(columns.number),
    size,
    reach,
    numRows: Math.min(numRows, MOST_ROWS),
    open: new Set(columns.open),
  };
}

function readHeat(heat) {
  return heat && { size: heat.buckets, bytes: Uint8Array.from(atob(heat.bytes), (byte) => byte.charCodeAt(0)) };
}

export function readRun(text) {
  const values = JSON.parse(text);
  const ranks = values.ranks.map(readRank);
  return {
    ...values,
    ranks,
    indexOfRank: new Map(ranks.map((rank, index) => [rank.rank, index])),
    endOfRank: new Map(values.ends.map((end) => [end.rank, end])),
    outOfLine: new Set(values.out_of_line),
    heat: readHeat(values.heat), // bytes: (rank, span), the share of the span that the rank waited
  };
}

// The index of the call with this number, or -1.
export function indexOfCall(rank, number) {
  let low = 0;
  let high = rank.size - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (rank.number[middle] === number) {
      return middle;
    }
    if (rank.number[middle] < number) {
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return -1;
}
