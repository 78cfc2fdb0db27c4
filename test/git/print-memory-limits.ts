/** Prints git's memory limits for a limit of a gibibyte, and of a tebibyte. */
import { limitGitMemory, withMemoryLimit } from '../../src/git/process/memory-limit.ts'

const limits = [2 ** 30, 2 ** 40].map((bytes) => {
  limitGitMemory(bytes)
  return withMemoryLimit('git', ['cat-file'])[1].find((word) => /^[0-9]+$/.test(word))
})
process.stdout.write(limits.join())
