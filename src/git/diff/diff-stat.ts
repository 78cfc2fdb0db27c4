/** Counts the differences between commits. Concurrent requests are batched into one process. */
import { git, gitOutput } from '../process/run.ts'

export interface DiffStat {
  additions: number
  deletions: number
  changedFiles: number
}

/** Maximum number of processes per repository: a long diff does not block all others. */
const PROCESSES = 2
/** Maximum number of requests per process. */
const MAX_REQUESTS = 16

const OPTIONS = ['-r', '-M', '--no-ext-diff', '--no-textconv', '--shortstat'] as const

interface Request {
  from: string
  to: string
  resolve(stat: DiffStat): void
  reject(error: unknown): void
}

/** A repository's waiting requests, and the number of its running processes. */
interface RepositoryQueue {
  waiting: Request[]
  running: number
}

const queues = new Map<string, RepositoryQueue>()

/**
 * Counts the changed lines and files between two commits or trees, whose ids must be valid. A renamed file counts once;
 * binary files have no lines.
 * @throws GitFailed for a missing object, and the errors of `git`
 */
export function countDifference(dir: string, from: string, to: string): Promise<DiffStat> {
  const repository = queues.get(dir) ?? { waiting: [], running: 0 }
  queues.set(dir, repository)
  return new Promise((resolve, reject) => {
    repository.waiting.push({ from, to, resolve, reject })
    if (repository.running < PROCESSES) void answerAll(dir, repository)
  })
}

/** Answers requests until the queue is empty. Never rejects. */
async function answerAll(dir: string, repository: RepositoryQueue): Promise<void> {
  repository.running += 1
  while (repository.waiting.length > 0) {
    const taken = repository.waiting.splice(0, MAX_REQUESTS)
    const left = taken.length === 1 ? taken : await answerTogether(dir, taken)
    for (const request of left) {
      await countOne(dir, request).then(request.resolve, request.reject)
    }
  }
  repository.running -= 1
  if (repository.running === 0) queues.delete(dir)
}

async function countOne(dir: string, { from, to }: Request): Promise<DiffStat> {
  return statIn((await gitOutput(['diff-tree', ...OPTIONS, from, to, '--'], { dir })).toString('latin1'))
}

/**
 * Answers with one process. Resolves to the requests that it did not answer: those after a failure, and those without a
 * count: nothing differs, an object is missing, or they are trees, whose ids come first.
 */
async function answerTogether(dir: string, requests: readonly Request[]): Promise<Request[]> {
  const args = ['diff-tree', '--stdin', '--no-commit-id', ...OPTIONS]
  // For commits, git expects the later one first. It echoes a line without an object id, so each answer ends with `=`.
  const input = requests.map(({ from, to }) => `${to} ${from}\n=\n`).join('')
  // After a failure, each request runs alone and gets its own error.
  const output = await git(args, { dir, input }).catch(() => undefined)
  const answers = output?.code === 0 ? output.stdout.toString('latin1').split('=\n') : []
  return requests.filter(({ resolve }, i) => {
    const answer = answers[i] ?? ''
    if (!answer.startsWith(' ')) return true
    resolve(statIn(answer))
    return false
  })
}

function statIn(text: string): DiffStat {
  const count = (pattern: RegExp) => Number(pattern.exec(text)?.[1] ?? 0)
  return {
    additions: count(/(\d+) insertion/),
    deletions: count(/(\d+) deletion/),
    changedFiles: count(/(\d+) file/),
  }
}
