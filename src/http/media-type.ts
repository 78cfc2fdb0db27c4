/** Which of its forms a resource is asked for in: `Accept`. */

/**
 * The offered type that the header prefers; of equals the one that is offered first. That one is also the answer
 * when the header is missing or names none of them: better than refusing. `named`: types that no `*` stands for.
 */
export function preferredType<Type extends string>(
  accept: string | undefined,
  offered: readonly [Type, ...Type[]],
  named: readonly NoInfer<Type>[] = [],
): Type {
  const ranges = (accept ?? '').split(',').map(rangeOf)
  const [first, ...others] = offered.map((type) => ({
    type,
    quality: qualityOf(named.includes(type) ? [type] : rangesOf(type), ranges),
  }))
  if (first === undefined) return offered[0]
  return others.reduce((best, next) => (next.quality > best.quality ? next : best), first).type
}

interface Range {
  type: string
  quality: number
}

function rangeOf(text: string): Range {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))
  return { type, quality: weight === undefined ? 1 : Number(weight.slice(2)) || 0 }
}

/** Those that a type is in, the most specific first. */
const rangesOf = (type: string) => [type, `${type.split('/')[0]}/*`, '*/*']

/** That of the first that the header has. */
function qualityOf(those: readonly string[], ranges: readonly Range[]): number {
  for (const wanted of those) {
    const range = ranges.find((candidate) => candidate.type === wanted)
    if (range !== undefined) return range.quality
  }
  return 0
}
