/**
 * Paths of the project's own files. This module is one folder below src/, and in the build one folder below dist/ (see
 * scripts/build.js); other modules move in the build, so they use these functions.
 */
import { extname } from 'node:path'

/** File extension: `.ts`, or `.js` in a build. */
const KIND = extname(import.meta.url)

/** The file or directory at a path from the project's root: `ui/page.css`. */
export const projectFile = (path: string) => new URL(`../../${path}`, import.meta.url)

/** A program that Node runs in a thread or process of its own: `domain/markup/render-thread`. */
export const program = (path: string) => new URL(`../${path}${KIND}`, import.meta.url)
