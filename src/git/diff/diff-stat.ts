/** Counts the differences between commits. Concurrent requests are batched into one process. */
import { git, gitOutput } from '../process/run.ts'

export interface DiffStat {
  additions: number
  deletions: number
  changedFiles: number
}

/** Maximum number of processes per repository: a long diff does not block all others. */
const PROCESSES = 2
/** The most questions that one process answers. */
const MOST = 16

const OPTIONS = ['-r', '-M', '--no-ext-diff', '--no-textconv', '--shortstat'] as const

interface Question {
  from: string
  to: string
  resolve(stat: DiffStat): void
  reject(error: unknown): void
}

/** The questions of a repository that no process has taken yet, and how many processes run for it. */
interface Asked {
  waiting: Question[]
  running: number
}

const askedOf = new Map<string, Asked>()

/**
 * Counts the changed lines and files between two commits or trees, whose ids must be valid. A renamed file counts once;
 * binary files have no lines.
 * @throws GitFailed for a missing object, and the errors of `git`
 */
export function countDifference(dir: string, from: string, to: string): Promise<DiffStat> {
  const asked = askedOf.get(dir) ?? { waiting: [], running: 0 }
  askedOf.set(dir, asked)
  return new Promise((resolve, reject) => {
    asked.waiting.push({ from, to, resolve, reject })
    if (asked.running < PROCESSES) void answerAll(dir, asked)
  })
}

/** Answers requests until the queue is empty. Never rejects. */
async function answerAll(dir: string, asked: Asked): Promise<void> {
  asked.running += 1
  while (asked.waiting.length > 0) {
    const taken = asked.waiting.splice(0, MOST)
    const left = taken.length === 1 ? taken : await answerTogether(dir, taken)
    for (const question of left) {
      await countOne(dir, question).then(question.resolve, question.reject)
    }
  }
  asked.running -= 1
  if (asked.running === 0) askedOf.delete(dir)
}

async function countOne(dir: string, { from, to }: Question): Promise<DiffStat> {
  return statIn((await gitOutput(['diff-tree', ...OPTIONS, from, to, '--'], { dir })).toString('latin1'))
}

/**
 * Answers with one process. Resolves to the questions that it did not answer: those after a failure, and those without
 * a count: nothing differs, an object is missing, or they are trees, whose ids come first.
 */
async function answerTogether(dir: string, questions: readonly Question[]): Promise<Question[]> {
  const args = ['diff-tree', '--stdin', '--no-commit-id', ...OPTIONS]
  // For commits, git expects the later one first. It echoes a line without an object id, so each answer ends with `=`.
  const input = questions.map(({ from, to }) => `${to} ${from}\n=\n`).join('')
  // A failure is told to whom it concerns when each is asked alone.
  const output = await git(args, { dir, input }).catch(() => undefined)
  const answers = output?.code === 0 ? output.stdout.toString('latin1').split('=\n') : []
  return questions.filter(({ resolve }, i) => {
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
