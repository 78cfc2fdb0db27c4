/** Finds the code that blocks the event loop of this process, from a profile and the long iterations of the loop. */
import { Session } from 'node:inspector/promises'

/** A long iteration of the event loop. */
export interface Held {
  ms: number
  /** The sampled stacks, innermost function first, with the milliseconds in each; the longest first. */
  stacks: [stack: string, ms: number][]
}

/** Number of printed functions of a stack. */
const DEPTH = 8
const STACKS = 4
const SAMPLING_US = 500

/** `from` and `to` are in milliseconds of the profile's clock. */
interface Iteration {
  from: number
  to: number
  held: number
}

export async function profileLoop() {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.setSamplingInterval', { interval: SAMPLING_US })
  await session.post('Profiler.start')
  let iterations: Iteration[] = []
  let skipsNext = false
  return {
    /** Records an iteration of `held` milliseconds that ends now. */
    note(held: number, wall: number): void {
      // This iteration includes the last call of `holders`.
      if (skipsNext) {
        skipsNext = false
        return
      }
      const to = Number(process.hrtime.bigint()) / 1e6
      iterations.push({ from: to - wall, to, held })
    },
    /** Returns the code that blocked the loop since the last call, longest iterations first. */
    async holders(count: number): Promise<Held[]> {
      const { profile } = await session.post('Profiler.stop')
      await session.post('Profiler.start')
      const longest = iterations.sort((a, b) => b.held - a.held).slice(0, count)
      iterations = []
      skipsNext = true
      const nodes = new Map(profile.nodes.map((node) => [node.id, node]))
      const parents = new Map(
        profile.nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])),
      )
      function stackOf(id: number): string {
        const names: string[] = []
        for (
          let at: number | undefined = id;
          at !== undefined && names.length < DEPTH;
          at = parents.get(at)
        ) {
          const { functionName, url, lineNumber } = nodes.get(at)?.callFrame ?? {
            functionName: '?',
            url: '',
            lineNumber: 0,
          }
          if (functionName === '(root)') break
          names.push(
            `${functionName || '(anonymous)'} ${url.replace(/^.*\/(dist|node_modules)\//, '')}:${lineNumber + 1}`,
          )
        }
        return names.join(' < ')
      }
      const { samples = [], timeDeltas = [], startTime } = profile
      const found = longest.map(() => new Map<number, number>())
      let at = startTime / 1000
      samples.forEach((id, i) => {
        const ms = (timeDeltas[i] ?? 0) / 1000
        at += ms
        longest.forEach(({ from, to }, n) => {
          if (at < from || at > to) return
          const stacks = found[n]
          // A sample lasts until the next one.
          const next = (timeDeltas[i + 1] ?? 0) / 1000
          stacks?.set(id, (stacks.get(id) ?? 0) + next)
        })
      })
      return longest.map(({ held }, n) => ({
        ms: held,
        stacks: [...(found[n] ?? [])]
          .sort((a, b) => b[1] - a[1])
          .slice(0, STACKS)
          .map(([id, ms]): [string, number] => [stackOf(id), ms]),
      }))
    },
  }
}
