/** The events about how a repository is listed and used, in the stream `repo-<id>`. */

export type ListingEvent =
  /** An archived repository can be read, and nothing in it changes. */
  | { type: 'ArchivedChanged'; data: { repoId: number; archived: boolean } }
  /** Others may generate repositories from a template. */
  | { type: 'TemplateChanged'; data: { repoId: number; template: boolean } }
  /**
   * Also recorded when the repository is shown or hidden: then `topics` stay. `listed` says what changes for everybody:
   * the topics of a repository that not everybody may see are not in the list of all topics.
   */
  | {
      type: 'TopicsChanged'
      data: { repoId: number; topics: string[]; listed: { added: string[]; removed: string[] } }
    }
