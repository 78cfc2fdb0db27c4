import { readFileSync } from 'node:fs'
import { projectFile } from './project-files.ts'

const { version }: { version: string } = JSON.parse(readFileSync(projectFile('package.json'), 'utf8'))

/** The version in `package.json`: `0.1.0`. */
export const VERSION = version
